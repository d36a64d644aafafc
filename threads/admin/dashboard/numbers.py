"""Numbers as the dashboard writes them: short, the same in every language. Pure."""

from __future__ import annotations

from decimal import Decimal


def count(value: float) -> str:
    """Return a whole number with its thousands apart."""
    return f"{value:,.0f}"


def tokens(value: float) -> str:
    """Return a number of tokens in at most four digits: 980, 12.3k, 4.56M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            scaled = value / size
            return f"{scaled:.{2 if abs(scaled) < 10 else 1 if abs(scaled) < 100 else 0}f}{unit}"
    return f"{value:.0f}"


def usd(value: Decimal | float) -> str:
    """Return dollars: cents where there are some, otherwise two digits that count."""
    amount = float(value)
    if amount == 0:
        return "$0"
    if abs(amount) >= 0.1:
        return f"${amount:,.2f}"
    return f"${float(f'{amount:.2g}'):.10f}".rstrip("0")


def milliseconds(value: float) -> str:
    """Return a time: 850 ms, 1.3 s, 75 s."""
    if value < 1000:
        return f"{value:.0f} ms"
    return f"{value / 1000:.1f} s" if value < 10_000 else f"{value / 1000:.0f} s"


def percent(part: float, whole: float) -> str:
    """Return a share; nothing of nothing is 0%."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f}%" if 0 < abs(share) < 10 else f"{share:.0f}%"
