"""Lines that a judge need not read, and all that it must."""

from agent_cli.policies.judge import abridged
from tests.tables import each_row

QUIET = "def test_it():\n    result = parse('a b')\n    assert result == ['a']\n    print(result)\n"
FORMS = (
    "cat > check.py << 'EOF'\n{}EOF\npython check.py",
    "cd src && cat > 'check.py' <<'EOF'\n{}EOF\n",
    'cat <<"EOF" > a/b.md\n{}EOF',
    "cat << 'EOF' > check.py && python check.py\n{}EOF",
    "python3 - << 'EOF'\n{}EOF",
    "node <<'END'\n{}END",
)


@each_row("form", FORMS)
def test_quiet_lines_of_a_source_file_are_counted(form: str) -> None:
    assert abridged(form.format(QUIET)) == form.format("[4 lines]\n")


@each_row(("count", "is_counted"), [(2, False), (3, True)])
def test_quiet_lines_are_counted_only_where_that_is_shorter(
    count: int, *, is_counted: bool
) -> None:
    lines = "x = 1\n" * count

    assert abridged(FORMS[0].format(lines)) == FORMS[0].format(
        f"[{count} lines]\n" if is_counted else lines
    )


@each_row(("length", "stays"), [(200, False), (201, True)])
def test_long_line_stays_whatever_it_says(length: int, *, stays: bool) -> None:
    """Nobody sees at its end what a program written in one line does; the line feed counts."""
    line = f"x = {'1' * (length - 5)}\n"
    script = FORMS[0].format(f"{QUIET}{line}{QUIET}")

    assert abridged(script) == FORMS[0].format(
        f"[4 lines]\n{line}[4 lines]\n" if stays else "[9 lines]\n"
    )


@each_row(
    "line",
    [
        "import os; os.remove(p)",
        "from shutil import rmtree as f",
        "subprocess.run(['make'])",
        "__import__('o' + 's')",
        "getattr(m, name)(arg)",
        "exec(data)",
        "x = b64decode(data)",
        "x = codecs.decode(data, 'rot13')",
        "x = bytes.fromhex(data)",
        "x = '\\x72\\x6d'",
        "x = ''.join(parts)",
        "x = data[::-1]",
        "requests.post(url, json=d)",
        "s.connect(('a', 1))",
        "urlopen(u)",
        "const cp = require('child_process')",
        "fetch('http://a')",
        "exec.Command(name)",
        "Runtime.getRuntime().exec(c)",
        "std::fs::remove_dir_all(p)",
        "system(c);",
        "open('/etc/passwd')",
        "Path.home() / '.ssh'",
        "p = '~/.aws'",
        "print(environ)",
        "token = load()",
        "cursor.execute('DROP TABLE users')",
        "`rm -rf x`",
        "f.write(x)",
        "os\u200b.remove(p)",
        "sys.modules['x']",
        "().__class__.__base__.__subclasses__()",
        "x" * 300,
    ],
)
def test_line_that_may_act_stays(line: str) -> None:
    """Threat 26: between quiet lines it would be what nobody reads."""
    script = FORMS[0].format(f"{QUIET}{line}\n{QUIET}")

    assert abridged(script) == FORMS[0].format(f"[4 lines]\n{line}\n[4 lines]\n")


@each_row(
    "form",
    [
        "cat > run.sh << 'EOF'\n{}EOF",
        "cat > Makefile << 'EOF'\n{}EOF",
        "cat > .github/workflows/a.yml << 'EOF'\n{}EOF",
        "cat > package.json << 'EOF'\n{}EOF",
        "bash << 'EOF'\n{}EOF",
        "ssh host << 'EOF'\n{}EOF",
        "cat << 'EOF' | bash\n{}EOF",
        "cat > a.py << 'EOF' | tee b\n{}EOF",
        "cat > a.py << EOF\n{}EOF",
        "cat > a.py <<- 'EOF'\n{}EOF",
        "cat > a.py << 'E'OF\n{}EOF",
        "cat > a.py << 'EOF'\n{}EOF\nbash a.py",
        "cat > a.py << 'EOF'\n{}EOF\n. ./a.py",
        "cat > a.py << 'EOF'\n{}EOF\nchmod +x a.py; ./a.py",
        "cat > a.py > b << 'EOF'\n{}EOF",
        "cat x > a.py << 'EOF'\n{}EOF",
        "echo \"<< 'EOF'\n{}EOF\"",
        "cat > a.py << 'EOF'\nEOF\n{}EOF",
        "cat > a.py << 'A' << 'B'\n{}A\nB",
        "if true; then cat > a.py << 'EOF'\n{}",
    ],
)
def test_what_a_shell_may_run_stays_whole(form: str) -> None:
    """Threat 26: there each line is a command, whatever its words."""
    script = form.format("mv a b\n" * 5)

    assert abridged(script) == script
