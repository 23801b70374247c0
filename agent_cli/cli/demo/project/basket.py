"""A shopping basket: prices in cents, a discount for many of one kind."""

BULK_FROM = 10
BULK_PERCENT = 15


def line_total(price_cents, quantity):
    """Return what *quantity* of one kind cost, with the bulk discount."""
    total = price_cents * quantity
    if quantity > BULK_FROM:
        total -= total * BULK_PERCENT // 100
    return total


def basket_total(lines):
    """Return the total of (price, quantity) pairs."""
    return sum(line_total(price, quantity) for quantity, price in lines)
