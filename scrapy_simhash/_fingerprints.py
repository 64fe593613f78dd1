"""Fingerprints as numbers; this loads no numpy, for processes that need none."""

FINGERPRINT_BITS = 64
_ALL_BITS = 2**FINGERPRINT_BITS - 1


def check_fingerprint(fingerprint: int) -> int:
    """Return a fingerprint unchanged; `ValueError` unless it is a whole number below 2**64."""
    if not isinstance(fingerprint, int) or not 0 <= fingerprint <= _ALL_BITS:
        raise ValueError(
            f"a fingerprint is a whole number from 0 to 2**64 - 1, got {fingerprint!r}"
        )
    return fingerprint
