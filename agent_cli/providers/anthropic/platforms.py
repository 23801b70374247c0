"""The platforms that serve Claude, as a table: differences, model names, and remedies.

Data only: no SDK, no request. `clouds/` has the clients of platforms other than Anthropic's.
"""

from collections.abc import Callable, Mapping

from agent_cli.contracts.errors import CHECK_KEY, NoCredentials
from agent_cli.contracts.options import PlatformName
from agent_cli.providers.failures import Remedies
from agent_cli.system.loading import is_installed, late_pattern
from agent_cli.system.records import dataclass, field

DATED_ID = late_pattern(r"-(20\d{6})$")
# The prefix of a region or of AWS, Bedrock's version suffix, Google's date.
_CLOUD_PARTS = late_pattern(r"^(?:[a-z-]+\.)?anthropic\.|-v\d+(?::\d+)?$|@[\w-]+$")


_OWN_REMEDIES = Remedies(
    rejected="API key rejected",
    sign_in=CHECK_KEY,
    forbidden="the API key has no permission for this",
    permission="check its workspace and limits",
    unknown_model="check the model id and ANTHROPIC_BASE_URL",
    address="ANTHROPIC_BASE_URL",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Variables, at least one of them required, and the sentence for the user if none is set."""

    names: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """One row of the table.

    Attributes:
        has_automatic_caching: Whether it takes `cache_control` for a whole request. Without it, the
            last block of the last message is marked, with the same effect.
        keys: Variables of which one alone signs in, without `package`.
        package: The library's name on the package index; `module` is its import name.
        extra: The extra of this program that installs it.
        needs: Variables required for every request.
        model_id: Returns the platform's id for Anthropic's id of a model.
    """

    name: PlatformName
    title: str
    has_automatic_caching: bool = True
    remedies: Remedies = _OWN_REMEDIES
    keys: tuple[str, ...] = ()
    package: str = ""
    module: str = ""
    extra: str = ""
    needs: tuple[Need, ...] = ()
    model_id: Callable[[str], str] = field(default=str)


def _bedrock_id(model_id: str) -> str:
    return f"anthropic.{model_id}" if model_id.startswith("claude-") else model_id


def _vertex_id(model_id: str) -> str:
    return DATED_ID.sub(r"@\1", model_id)


ANTHROPIC = Platform(name="anthropic", title="Anthropic's API")
BEDROCK = Platform(
    name="bedrock",
    title="Amazon Bedrock",
    has_automatic_caching=False,
    remedies=Remedies(
        is_cloud=True,
        rejected="the AWS credentials were rejected",
        sign_in="sign in again with `aws sso login`, or renew the AWS keys or"
        " AWS_BEARER_TOKEN_BEDROCK",
        forbidden="AWS refused access",
        permission="request access to the model in the Bedrock console, and check the IAM policy",
        unknown_model="check that the model id is one of Bedrock's (anthropic.claude-...) and that"
        " AWS_REGION has the model",
        address="ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
    ),
    keys=("AWS_BEARER_TOKEN_BEDROCK",),
    package="boto3",
    module="boto3",
    extra="bedrock",
    model_id=_bedrock_id,
)
VERTEX = Platform(
    name="vertex",
    title="Vertex AI",
    has_automatic_caching=False,
    remedies=Remedies(
        is_cloud=True,
        rejected="the Google credentials were rejected",
        sign_in="run: gcloud auth application-default login",
        forbidden="Google Cloud refused access",
        permission="enable the Vertex AI API and the model (Model Garden) in the project, and check"
        " the role Vertex AI User",
        unknown_model="check the model id, that the model is enabled in Model Garden and that"
        " CLOUD_ML_REGION has it",
        address="ANTHROPIC_VERTEX_BASE_URL",
    ),
    package="google-auth[requests]",
    module="google.auth",
    extra="vertex",
    needs=(
        Need(
            names=("CLOUD_ML_REGION",),
            sentence="no region is set; export CLOUD_ML_REGION=global, or one that has the model",
        ),
    ),
    model_id=_vertex_id,
)
FOUNDRY = Platform(
    name="foundry",
    title="Microsoft Foundry",
    has_automatic_caching=False,
    remedies=Remedies(
        is_cloud=True,
        rejected="the Azure credentials were rejected",
        sign_in="check ANTHROPIC_FOUNDRY_API_KEY, or run: az login",
        forbidden="Azure refused access",
        permission="check your role for the resource (Cognitive Services User)",
        unknown_model="deploy the model in the resource, and name the deployment in [models]",
        address="ANTHROPIC_FOUNDRY_BASE_URL",
    ),
    keys=("ANTHROPIC_FOUNDRY_API_KEY",),
    package="azure-identity",
    module="azure.identity",
    extra="foundry",
    needs=(
        Need(
            names=("ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL"),
            sentence="no resource is named; export ANTHROPIC_FOUNDRY_RESOURCE=name, the part"
            " before .services.ai.azure.com",
        ),
    ),
)
AWS = Platform(
    name="aws",
    title="Claude Platform on AWS",
    remedies=Remedies(
        is_cloud=True,
        rejected=BEDROCK.remedies.rejected,
        sign_in="sign in again with `aws sso login`, or renew the AWS keys or"
        " ANTHROPIC_AWS_API_KEY",
        forbidden=BEDROCK.remedies.forbidden,
        permission="check the IAM policy and ANTHROPIC_AWS_WORKSPACE_ID",
        unknown_model="check the model id and that AWS_REGION has the model",
        address="ANTHROPIC_AWS_BASE_URL",
    ),
    keys=("ANTHROPIC_AWS_API_KEY",),
    package=BEDROCK.package,
    module=BEDROCK.module,
    extra=BEDROCK.extra,
    needs=(
        Need(
            names=("ANTHROPIC_AWS_WORKSPACE_ID",),
            sentence="no workspace is named; export ANTHROPIC_AWS_WORKSPACE_ID=wrkspc_...",
        ),
    ),
)
PLATFORMS: Mapping[PlatformName, Platform] = {
    each.name: each for each in (ANTHROPIC, BEDROCK, VERTEX, FOUNDRY, AWS)
}


def check_access(platform: Platform, variables: Mapping[str, str]) -> None:
    """Check, without a request, that *platform* has everything it always needs.

    Raises:
        NoCredentials: Something is missing; the message says what to set or install.
    """
    for need in platform.needs:
        if not any(variables.get(name) for name in need.names):
            raise NoCredentials(f"{platform.title}: {need.sentence}")
    has_key = any(variables.get(name) for name in platform.keys)
    if platform.module and not has_key and not is_installed(platform.module):
        raise NoCredentials(missing_package(platform))


def missing_package(platform: Platform) -> str:
    """Return the sentence for a platform whose library is not installed."""
    instead = f"; or set {' or '.join(platform.keys)}" if platform.keys else ""
    return (
        f"{platform.title} needs the package {platform.package}: pip install"
        f" '{platform.package}', or install agent-cli with its extra [{platform.extra}]{instead}"
    )


def plain_model_id(model_id: str) -> str:
    """Return Anthropic's id of a model, given a cloud's name for it or an id with a date."""
    return DATED_ID.sub("", _CLOUD_PARTS.sub("", model_id))
