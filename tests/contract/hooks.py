"""What schemathesis cannot send by itself."""

import schemathesis
from schemathesis.specs.openapi import checks

# Who sends many unknown tokens is told to wait.
checks.AUTH_REJECTION_STATUSES |= {429}


@schemathesis.serializer("application/wasm")
def wasm(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()
