"""What schemathesis cannot send by itself."""

import schemathesis


@schemathesis.serializer("application/wasm")
def wasm(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()
