// The host's functions as the module "wfhost" sees them, and the fuel.
#include "engine.h"

bool loading = true;

static bool host_is_there(void) {
    if (loading) JS_ThrowTypeError(ctx, "the log and random numbers are not there while a script is loaded; use them within an entry");
    return !loading;
}

static JSValue f_log(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
    if (!host_is_there()) return JS_EXCEPTION;
    int32_t level = 2;
    JS_ToInt32(c, &level, argv[0]);
    Text text = text_from(argv[1]), fields;
    bool some = !absent(argv[2]);
    if (some) fields = text_from(argv[2]);
    wfhost_process_host_log(level < 0 || level > 4 ? 2 : (uint8_t)level, &text, some ? &fields : NULL);
    script_engine_string_free(&text);
    if (some) script_engine_string_free(&fields);
    return JS_UNDEFINED;
}

// QuickJS asks this too, in place of a clock. Packages ask for the time when they are loaded: it is 1970 then.
int64_t wfhost_clock(void) { return loading ? 0 : (int64_t)wfhost_process_host_now(); }

static JSValue f_now(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewFloat64(c, (double)wfhost_clock());
}

static JSValue f_random(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
    if (!host_is_there()) return JS_EXCEPTION;
    uint32_t len = 0;
    JS_ToUint32(c, &len, argv[0]);
    script_engine_list_u8_t bytes;
    wfhost_process_host_random(len > 4096 ? 4096 : len, &bytes);
    JSValue v = js_bytes(bytes.ptr, bytes.len);
    script_engine_list_u8_free(&bytes);
    return v;
}

static JSValue f_whoami(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
    if (!host_is_there()) return JS_EXCEPTION;
    wfhost_process_host_identity_t me;
    wfhost_process_host_whoami(&me);
    JSValue o = JS_NewObject(c);
    set(o, "run", js_text(me.run));
    set(o, "pid", JS_NewInt64(c, (int64_t)me.pid));
    set(o, "nextTag", JS_NewInt64(c, (int64_t)me.next_tag));
    wfhost_process_host_identity_free(&me);
    return o;
}

static JSValue f_encode(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    const char *s = JS_ToCStringLen(c, &len, argv[0]);
    if (!s) return JS_EXCEPTION;
    JSValue v = js_bytes((const uint8_t *)s, len);
    JS_FreeCString(c, s);
    uint8_t *bytes = JS_GetUint8Array(c, &len, v);
    if (bytes) well_formed(bytes, len);
    return v;
}

static JSValue f_decode(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
    size_t len;
    uint8_t *p = JS_GetUint8Array(c, &len, argv[0]);
    return p ? JS_NewStringLen(c, (const char *)p, len) : JS_EXCEPTION;
}

static JSValue f_register(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
    hooks = JS_DupValue(c, argv[0]);
    return JS_UNDEFINED;
}

static void function(JSValueConst o, const char *name, JSCFunction *f, int args) {
    set(o, name, JS_NewCFunction(ctx, f, name, args));
}

JSValue host_functions(void) {
    JSValue host = JS_NewObject(ctx);
    function(host, "log", f_log, 3);
    function(host, "now", f_now, 0);
    function(host, "random", f_random, 1);
    function(host, "whoami", f_whoami, 0);
    function(host, "encode", f_encode, 1);
    function(host, "decode", f_decode, 1);
    function(host, "register", f_register, 1);
    return host;
}

// A loop without end is ended before its fuel is used up, while its line can still be told. QuickJS calls `interrupt` every 1,000 calls
// and backward jumps, and the builtins that loop do too; what that took at most so far says how much must be left.
enum { KEEP_MOST = 20000000 };
static uint64_t first, left, most, keep;
static bool ended;

void fuel_begin(void) {
    JS_UpdateStackTop(rt);
    broken = ended = false;
    first = left = wfhost_process_engine_fuel_left();
    most = 0;
    keep = left / 10 < KEEP_MOST ? left / 10 : KEEP_MOST;
}

bool ran_too_long(void) { return ended; }

int interrupt(JSRuntime *r, void *opaque) {
    uint64_t now = wfhost_process_engine_fuel_left();
    // The report may run the script's code too, and has half of what was kept.
    if (ended) return now < keep / 2;
    if (now < left && left - now > most) most = left - now;
    left = now;
    // The collector visits all of the heap at once.
    uint64_t collect = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    return ended = now < keep + 2 * most + (4 * collect < first / 4 ? 4 * collect : first / 4);
}
