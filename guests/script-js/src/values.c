// Between the contract's values and those of JavaScript.
#include "engine.h"

bool broken;

Text text_of(const char *s, size_t len) {
    Text t;
    script_engine_string_dup_n(&t, s, len);
    return t;
}

// Half of a surrogate pair has no UTF-8; QuickJS encodes it all the same. U+FFFD is as long.
void well_formed(uint8_t *s, size_t len) {
    for (size_t i = 0; i + 2 < len; i++) {
        if (s[i] == 0xed && s[i + 1] >= 0xa0) memcpy(s + i, "\xef\xbf\xbd", 3);
    }
}

Text text_from(JSValueConst v) {
    size_t len;
    const char *s = JS_ToCStringLen(ctx, &len, v);
    if (!s) {
        if (JS_HasException(ctx)) JS_FreeValue(ctx, JS_GetException(ctx));
        return text_of("", 0);
    }
    Text t = text_of(s, len);
    JS_FreeCString(ctx, s);
    well_formed(t.ptr, t.len);
    return t;
}

JSValue js_text(Text t) { return JS_NewStringLen(ctx, (const char *)t.ptr, t.len); }

JSValue get(JSValueConst o, const char *name) {
    JSPropertyDescriptor d;
    JSAtom atom = JS_NewAtom(ctx, name);
    int there = JS_IsObject(o) ? JS_GetOwnProperty(ctx, &d, o, atom) : 0;
    JS_FreeAtom(ctx, atom);
    if (there < 0) JS_FreeValue(ctx, JS_GetException(ctx));
    if (there <= 0) return JS_UNDEFINED;
    JS_FreeValue(ctx, d.getter);
    JS_FreeValue(ctx, d.setter);
    return d.value;
}

void set(JSValueConst o, const char *name, JSValue v) {
    if (JS_IsException(v) || JS_DefinePropertyValueStr(ctx, o, name, v, JS_PROP_C_W_E) < 0) broken = true;
}

bool absent(JSValueConst v) { return JS_IsUndefined(v) || JS_IsNull(v); }

Text get_text(JSValueConst o, const char *name) {
    JSValue v = get(o, name);
    Text t = absent(v) ? text_of("", 0) : text_from(v);
    JS_FreeValue(ctx, v);
    return t;
}

void get_option(JSValueConst o, const char *name, script_engine_option_string_t *out) {
    JSValue v = get(o, name);
    out->is_some = !absent(v);
    if (out->is_some) out->val = text_from(v);
    JS_FreeValue(ctx, v);
}

uint64_t number_from(JSValueConst v) {
    double d = 0;
    if (JS_ToFloat64(ctx, &d, v) < 0) JS_FreeValue(ctx, JS_GetException(ctx));
    return d > 0 ? d < 9007199254740991.0 ? (uint64_t)d : 9007199254740991u : 0;
}

uint64_t get_number(JSValueConst o, const char *name) {
    JSValue v = get(o, name);
    uint64_t n = absent(v) ? 0 : number_from(v);
    JS_FreeValue(ctx, v);
    return n;
}

bool get_bool(JSValueConst o, const char *name) {
    JSValue v = get(o, name);
    bool b = JS_ToBool(ctx, v) > 0;
    JS_FreeValue(ctx, v);
    return b;
}

// Payloads: JSON is parsed here; bytes are a Uint8Array; a blob is an object. Outwards, JSON is a text.

JSValue js_bytes(const uint8_t *p, size_t len) { return JS_NewUint8ArrayCopy(ctx, p, len); }

JSValue js_json(const uint8_t *text, size_t len, const char *name) {
    // The parser wants a zero after the text.
    char *copy = js_malloc(ctx, len + 1);
    if (!copy) return JS_EXCEPTION;
    memcpy(copy, text, len);
    copy[len] = 0;
    JSValue v = JS_ParseJSON(ctx, copy, len, name);
    js_free(ctx, copy);
    return v;
}

JSValue js_payload(const Payload *p) {
    if (p->tag == WFHOST_PROCESS_TYPES_PAYLOAD_JSON) return js_json(p->val.json.ptr, p->val.json.len, "<json>");
    if (p->tag == WFHOST_PROCESS_TYPES_PAYLOAD_BYTES) return js_bytes(p->val.bytes.ptr, p->val.bytes.len);
    JSValue o = JS_NewObject(ctx);
    set(o, "digest", js_text(p->val.blob.digest));
    set(o, "size", JS_NewInt64(ctx, (int64_t)p->val.blob.size));
    set(o, "mediaType", js_text(p->val.blob.media_type));
    return o;
}

Payload payload_from(JSValue v) {
    Payload p;
    size_t len;
    uint8_t *bytes;
    if (JS_IsString(v)) {
        p.tag = WFHOST_PROCESS_TYPES_PAYLOAD_JSON;
        p.val.json = text_from(v);
        // A text that did not fit into memory must not become another value.
        if (p.val.json.len == 0) broken = true;
    } else if (JS_GetTypedArrayType(v) >= 0) {
        p.tag = WFHOST_PROCESS_TYPES_PAYLOAD_BYTES;
        bytes = JS_GetUint8Array(ctx, &len, v);
        if (!bytes) broken = true, len = 0;
        Text t = text_of((const char *)bytes, len);
        p.val.bytes = (script_engine_list_u8_t){t.ptr, t.len};
    } else {
        p.tag = WFHOST_PROCESS_TYPES_PAYLOAD_BLOB;
        p.val.blob.digest = get_text(v, "digest");
        p.val.blob.size = get_number(v, "size");
        p.val.blob.media_type = get_text(v, "mediaType");
    }
    JS_FreeValue(ctx, v);
    return p;
}

// Problems

static const char *const CLASSES[] = {"definite", "retryable", "uncertain"};

static JSValue js_option(const script_engine_option_string_t *o) { return o->is_some ? js_text(o->val) : JS_UNDEFINED; }

JSValue js_problem(const Problem *p) {
    JSValue o = JS_NewObjectProto(ctx, JS_NULL);
    set(o, "kind", js_text(p->kind));
    set(o, "title", js_text(p->title));
    set(o, "status", JS_NewInt32(ctx, p->status));
    set(o, "detail", js_option(&p->detail));
    set(o, "class", JS_NewString(ctx, CLASSES[p->class_]));
    set(o, "retryAfter", p->retry_after.is_some ? JS_NewFloat64(ctx, (double)p->retry_after.val / 1000) : JS_UNDEFINED);
    set(o, "data", js_option(&p->data));
    return o;
}

void problem_from(JSValue o, Problem *p) {
    memset(p, 0, sizeof *p);
    p->kind = get_text(o, "kind");
    p->title = get_text(o, "title");
    p->status = (uint16_t)get_number(o, "status");
    get_option(o, "detail", &p->detail);
    Text class = get_text(o, "class");
    for (uint8_t i = 0; i < 3; i++) {
        if (class.len == strlen(CLASSES[i]) && !memcmp(class.ptr, CLASSES[i], class.len)) p->class_ = i;
    }
    script_engine_string_free(&class);
    JSValue after = get(o, "retryAfter");
    p->retry_after.is_some = !absent(after);
    if (p->retry_after.is_some) p->retry_after.val = number_from(after) * 1000;
    JS_FreeValue(ctx, after);
    get_option(o, "data", &p->data);
    JS_FreeValue(ctx, o);
}

JSValue call_hook(const char *name, int argc, JSValueConst *argv) {
    JSValue f = get(hooks, name), v = JS_Call(ctx, f, JS_UNDEFINED, argc, argv);
    JS_FreeValue(ctx, f);
    return v;
}

static const char NO_REASON[] = "The script failed, and so did the report of it";

void exception_to(const char *kind, Problem *p) {
    reserve_release();
    if (ran_too_long() && strcmp(kind, "bad-script")) kind = "ran-too-long";
    JS_SetGCThreshold(rt, SIZE_MAX); // it is the end: what is left of the fuel is the report's
    JSValue e = JS_HasException(ctx) ? JS_GetException(ctx) : JS_UNDEFINED, k = JS_NewString(ctx, kind);
    JSValueConst args[] = {e, k, JS_NewBool(ctx, ran_too_long())};
    JSValue o = broken && JS_IsUndefined(e) ? JS_UNDEFINED : call_hook("failure", 3, args);
    if (!JS_IsObject(o)) {
        if (JS_IsException(o)) JS_FreeValue(ctx, JS_GetException(ctx));
        memset(p, 0, sizeof *p);
        p->kind = text_of(kind, strlen(kind));
        p->title = text_of(NO_REASON, sizeof NO_REASON - 1);
    } else {
        problem_from(o, p);
    }
    JS_FreeValue(ctx, e);
    JS_FreeValue(ctx, k);
}
