// The exports. What a program sees is written in guests/javascript/src, and bundled into SDK.
#include "engine.h"

JSRuntime *rt;
JSContext *ctx;
JSValue hooks;

static char SDK[] = {
#include "sdk.inc"
    0};
static const char TYPESCRIPT[] = {
#include "typescript.inc"
    0};
static void rejected(JSContext *c, JSValueConst promise, JSValueConst reason, bool handled, void *opaque) {
    JSValue h = JS_NewBool(c, handled);
    JSValueConst args[] = {promise, reason, h};
    JSValue v = call_hook("rejected", 3, args);
    if (JS_IsException(v)) JS_FreeValue(c, JS_GetException(c));
    JS_FreeValue(c, v);
}

static void start(void) {
    if (rt) return;
    rt = JS_NewRuntime();
    ctx = JS_NewContext(rt);
    JS_SetMaxStackSize(rt, STACK_MAX);
    modules_start();
    JSValue global = JS_GetGlobalObject(ctx);
    JSAtom shared = JS_NewAtom(ctx, "SharedArrayBuffer"); // there are no threads
    JS_DeleteProperty(ctx, global, shared, 0);
    JS_FreeAtom(ctx, shared);
    set(global, "__host", host_functions());
    JSModuleDef *m = compile_text("wfhost", SDK, sizeof SDK - 1, 1, false);
    JSValue ns = m ? evaluate(m) : JS_EXCEPTION;
    if (JS_IsException(ns)) __builtin_trap();
    modules_scope(ns);
    JS_FreeValue(ctx, ns);
    JS_FreeValue(ctx, global);
    JS_SetHostPromiseRejectionTracker(rt, rejected, NULL);
    JS_SetInterruptHandler(rt, interrupt, NULL);
    JS_RunGC(rt);
    reserve_take();
}

// Run when the component is made (preinit.py), and its memory written into it.
__attribute__((export_name("preinit"))) void preinit(void) {
    start();
    memset(SDK, 0, sizeof SDK); // it has been compiled
}

static void begin(void) {
    start();
    fuel_begin();
    reserve_take();
}

bool exports_wfhost_process_script_load(exports_wfhost_process_script_list_source_t *sources,
                                        exports_wfhost_process_script_refusal_t *err) {
    begin();
    memset(err, 0, sizeof *err);
    if (!sources->len) __builtin_trap();
    err->tag = EXPORTS_WFHOST_PROCESS_SCRIPT_REFUSAL_MISSING;
    JSValue ns = modules_load(sources->ptr, sources->len, &err->val.missing);
    if (err->val.missing.len && !JS_IsException(ns)) return false;
    if (!JS_IsException(ns)) {
        JSValue path = js_text(sources->ptr[0].path);
        JSValueConst args[] = {ns, path};
        JSValue done = call_hook("loaded", 2, args);
        JS_FreeValue(ctx, path);
        JS_FreeValue(ctx, ns);
        ns = done;
    }
    bool ok = !JS_IsException(ns);
    if (!ok) {
        err->tag = EXPORTS_WFHOST_PROCESS_SCRIPT_REFUSAL_WRONG;
        exception_to("bad-script", &err->val.wrong);
    }
    JS_FreeValue(ctx, ns);
    exports_wfhost_process_script_list_source_free(sources);
    JS_RunGC(rt);
    return ok;
}

bool exports_wfhost_process_script_translate(exports_wfhost_process_script_source_t *source, Text *ret, Problem *err) {
    begin();
    JSModuleDef *m = compile_text("typescript", TYPESCRIPT, sizeof TYPESCRIPT - 1, 1, false);
    JSValue ns = m ? evaluate(m) : JS_EXCEPTION, v = JS_EXCEPTION;
    if (!JS_IsException(ns)) {
        JSValue f = JS_GetPropertyStr(ctx, ns, "translate");
        JSValue path = js_text(source->path), text = js_text(source->text);
        JSValue line = JS_NewUint32(ctx, source->line), body = JS_NewBool(ctx, source->form == EXPORTS_WFHOST_PROCESS_SCRIPT_FORM_BODY);
        JSValueConst args[] = {path, text, line, body};
        v = JS_Call(ctx, f, JS_UNDEFINED, 4, args);
    }
    bool ok = !JS_IsException(v);
    if (ok) *ret = text_from(v);
    else exception_to("bad-script", err);
    return ok;
}

void exports_wfhost_process_describe_describe(Text *ret) {
    begin();
    JSValue v = call_hook("describe", 0, NULL);
    if (JS_IsException(v)) *ret = text_of("{}", 2);
    else *ret = text_from(v);
    JS_FreeValue(ctx, v);
}

bool exports_wfhost_process_guest_init(Text *entry, Payload *input, Problem *err) {
    begin();
    loading = false;
    JSValue i = js_payload(input), e = js_text(*entry);
    JSValueConst args[] = {e, i};
    JSValue v = JS_IsException(i) || JS_IsException(e) ? JS_EXCEPTION : call_hook("init", 2, args);
    bool ok = !JS_IsException(v);
    if (!ok) exception_to("exception", err);
    JS_FreeValue(ctx, v);
    JS_FreeValue(ctx, e);
    JS_FreeValue(ctx, i);
    script_engine_string_free(entry);
    exports_wfhost_process_guest_payload_free(input);
    return ok;
}

// The events, then all that follows of them, then what has come of it.
static bool turn(exports_wfhost_process_guest_list_event_t *events, wfhost_process_types_outcome_t *ret) {
    JSValue list = JS_NewArray(ctx);
    for (size_t i = 0; i < events->len; i++) {
        JSValue e = js_event(&events->ptr[i]);
        if (JS_DefinePropertyValueUint32(ctx, list, (uint32_t)i, e, JS_PROP_C_W_E) < 0) broken = true;
    }
    exports_wfhost_process_guest_list_event_free(events);
    if (broken) return false;
    JSValueConst args[] = {list};
    JSValue v = call_hook("hear", 1, args);
    JS_FreeValue(ctx, list);
    if (JS_IsException(v) || !run_jobs()) return false;
    JS_FreeValue(ctx, v);
    v = call_hook("outcome", 0, NULL);
    if (JS_IsException(v)) return false;
    outcome_from(v, ret);
    JS_FreeValue(ctx, v);
    return !broken;
}

void exports_wfhost_process_guest_step(exports_wfhost_process_guest_list_event_t *events, wfhost_process_types_outcome_t *ret) {
    begin();
    memset(ret, 0, sizeof *ret);
    if (!turn(events, ret)) {
        memset(ret, 0, sizeof *ret);
        ret->status.tag = WFHOST_PROCESS_TYPES_STATUS_FAILED;
        exception_to("exception", &ret->status.val.failed);
    }
    // An empty list still needs a pointer that is aligned and not null.
    if (ret->commands.len == 0) ret->commands.ptr = (void *)_Alignof(wfhost_process_types_command_t);
}

void exports_wfhost_process_guest_close(void) {}
