// The script and the modules that it imports: always from the sources that `load` was given.
#include <stdio.h>
#include "engine.h"

// Patched into QuickJS: an error of the module loader gets the place of the import; functions keep their source text.
extern bool wfhost_unplaced, wfhost_keep_source;

enum { KEEP_SOURCE_BELOW = 16 << 10 };

static const Source *sources;
static size_t count;
static JSModuleDef **made;  // of each source
static script_engine_list_string_t *missing_list;
static char *prefix;        // of a body: what is in scope there

static void add_missing(const char *name) {
    script_engine_list_string_t *l = missing_list;
    for (size_t i = 0; i < l->len; i++) {
        if (l->ptr[i].len == strlen(name) && !memcmp(l->ptr[i].ptr, name, l->ptr[i].len)) return;
    }
    Text *more = need((l->len + 1) * sizeof *more);
    if (l->len) memcpy(more, l->ptr, l->len * sizeof *more);
    free(l->ptr);
    l->ptr = more;
    l->ptr[l->len++] = text_of(name, strlen(name));
}

static Text joined(const char *before, Text text, const char *after) {
    size_t a = strlen(before), b = strlen(after);
    Text t = {need(a + text.len + b + 1), a + text.len + b};
    memcpy(t.ptr, before, a);
    memcpy(t.ptr + a, text.ptr, text.len);
    memcpy(t.ptr + a + text.len, after, b);
    return t;
}

JSModuleDef *compile_text(const char *name, const char *text, size_t len, int line, bool with_source) {
    JSEvalOptions options = {.version = JS_EVAL_OPTIONS_VERSION, .filename = name, .line_num = line,
                             .eval_flags = JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY};
    wfhost_keep_source = with_source;
    JSValue f = JS_Eval2(ctx, text, len, &options);
    wfhost_keep_source = true;
    if (JS_IsException(f)) return NULL;
    JSModuleDef *m = JS_VALUE_GET_PTR(f);
    JS_FreeValue(ctx, f);
    return m;
}

static int json_module(JSContext *c, JSModuleDef *m) { return JS_SetModuleExport(c, m, "default", JS_GetModulePrivateValue(c, m)); }
static int empty_module(JSContext *c, JSModuleDef *m) { return 0; }

static JSModuleDef *compile_json(const Source *s, const char *name) {
    JSValue v = js_json(s->text.ptr, s->text.len, name);
    if (JS_IsException(v)) return NULL;
    JSModuleDef *m = JS_NewCModule(ctx, name, json_module);
    if (!m) return NULL;
    JS_AddModuleExport(ctx, m, "default");
    JS_SetModulePrivateValue(ctx, m, v);
    return m;
}

static bool ends_with(const char *s, const char *end) {
    size_t a = strlen(s), b = strlen(end);
    return a >= b && !strcmp(s + a - b, end);
}

static JSModuleDef *compile_source(size_t i) {
    const Source *s = &sources[i];
    if (made[i]) return made[i];
    Text name = joined("", s->path, "");
    const char *path = (const char *)name.ptr;
    bool body = s->form == EXPORTS_WFHOST_PROCESS_SCRIPT_FORM_BODY;
    if (ends_with(path, ".json")) {
        made[i] = compile_json(s, path);
    } else {
        Text text = joined(body ? prefix : "", s->text, body ? "\n}" : "");
        made[i] = compile_text(path, (const char *)text.ptr, text.len, (int)s->line - body, s->text.len < KEEP_SOURCE_BELOW);
        free(text.ptr);
    }
    free(name.ptr);
    return made[i];
}

// Appends the segments of `name` to `out`; false above the folder.
static bool walk(char *out, const char *name) {
    while (*name) {
        size_t n = strcspn(name, "/");
        if (n == 2 && !memcmp(name, "..", 2)) {
            if (!out[0]) return false;
            char *slash = strrchr(out, '/');
            *(slash ? slash : out) = 0;
        } else if (n && !(n == 1 && name[0] == '.')) {
            if (out[0]) strcat(out, "/");
            strncat(out, name, n);
        }
        name += n + (name[n] == '/');
    }
    return true;
}

// "./a.js" in "lib/b.js" is "lib/a.js".
static char *normalize(JSContext *c, const char *base, const char *name, void *opaque) {
    wfhost_unplaced = true;
    if (!strcmp(name, "wfhost")) return js_strdup(c, name);
    if (strncmp(name, "./", 2) && strncmp(name, "../", 3)) {
        JS_ThrowReferenceError(c, "there is no module '%s': a script imports files, as './name.js', and 'wfhost'; a bundler makes one file of packages", name);
        return NULL;
    }
    char *out = js_mallocz(c, strlen(base) + strlen(name) + 2);
    if (!out) return NULL;
    const char *slash = strrchr(base, '/');
    memcpy(out, base, slash ? (size_t)(slash - base) : 0);
    if (walk(out, name)) return out;
    js_free(c, out);
    JS_ThrowReferenceError(c, "'%s' is outside of the workflow's folder", name);
    return NULL;
}

static JSModuleDef *load_module(JSContext *c, const char *name, void *opaque, JSValueConst attributes) {
    size_t len = strlen(name);
    for (size_t i = 0; i < count; i++) {
        if (sources[i].path.len != len || memcmp(sources[i].path.ptr, name, len)) continue;
        if (sources[i].form == EXPORTS_WFHOST_PROCESS_SCRIPT_FORM_ABSENT) {
            wfhost_unplaced = true;
            JS_ThrowReferenceError(c, "'%s' cannot be imported: %.*s", name, (int)sources[i].text.len, (const char *)sources[i].text.ptr);
            return NULL;
        }
        wfhost_unplaced = false;
        return compile_source(i);
    }
    if (missing_list) {
        // Goes on, to find all that is missing; this instance is of no further use.
        add_missing(name);
        return JS_NewCModule(c, name, empty_module);
    }
    JS_ThrowReferenceError(c, "there is no module '%s': import() finds those whose name is written out, or that are imported elsewhere", name);
    return NULL;
}

// import() of a literal: the module is loaded with the others, and run when the program asks for it.
typedef struct {
    char *base, *name;
} Later;
static Later *later;
static size_t later_count;

static char *copy_of(const char *s) {
    char *p = need(strlen(s) + 1);
    strcpy(p, s);
    return p;
}

void wfhost_import_seen(JSContext *c, const char *base, JSValueConst name, int line, int col) {
    const char *s = missing_list ? JS_ToCString(c, name) : NULL;
    if (!s) return;
    Later *more = need((later_count + 1) * sizeof *more);
    if (later_count) memcpy(more, later, later_count * sizeof *more);
    free(later);
    later = more;
    later[later_count++] = (Later){copy_of(base), copy_of(s)};
    JS_FreeCString(c, s);
}

static bool load_later(void) {
    // The list grows meanwhile.
    for (size_t i = 0; i < later_count; i++) {
        char *name = normalize(ctx, later[i].base, later[i].name, NULL);
        bool known = name && !strcmp(name, "wfhost"), is_absent = !name;
        for (size_t k = 0; name && k < count; k++) {
            if (sources[k].path.len != strlen(name) || memcmp(sources[k].path.ptr, name, sources[k].path.len)) continue;
            known |= made[k] != NULL;
            is_absent |= sources[k].form == EXPORTS_WFHOST_PROCESS_SCRIPT_FORM_ABSENT;
        }
        if (!name) JS_FreeValue(ctx, JS_GetException(ctx)); // the promise is rejected when the program asks
        bool ok = known || is_absent || load_module(ctx, name, NULL, JS_UNDEFINED);
        js_free(ctx, name);
        if (!ok) return false;
    }
    return true;
}

static void forget_later(void) {
    for (size_t i = 0; i < later_count; i++) {
        free(later[i].base);
        free(later[i].name);
    }
    free(later);
    later = NULL;
    later_count = 0;
}

bool run_jobs(void) { // false: an exception is pending
    JSContext *c;
    int n;
    while ((n = JS_ExecutePendingJob(rt, &c)) > 0) {}
    return n == 0;
}

JSValue evaluate(JSModuleDef *m) {
    JSValue promise = JS_EvalFunction(ctx, JS_DupValue(ctx, JS_MKPTR(JS_TAG_MODULE, m)));
    if (JS_IsException(promise) || !run_jobs()) return JS_EXCEPTION;
    if (JS_IsPromise(promise)) {
        JSPromiseStateEnum state = JS_PromiseState(ctx, promise);
        if (state == JS_PROMISE_REJECTED) {
            JS_PromiseMarkAsHandled(ctx, promise);
            return JS_Throw(ctx, JS_PromiseResult(ctx, promise));
        }
        if (state == JS_PROMISE_PENDING) return JS_ThrowTypeError(ctx, "a script must not wait at its top level");
    }
    JS_FreeValue(ctx, promise);
    return JS_GetModuleNamespace(ctx, m);
}

// Gives the namespace of the script; an exception; or undefined, when `missing` is filled.
JSValue modules_load(const Source *list, size_t len, script_engine_list_string_t *missing) {
    sources = list;
    count = len;
    missing_list = missing;
    made = need(len * sizeof *made);
    JSModuleDef *m = compile_source(0);
    bool ok = m && load_later();
    missing_list = NULL;
    JSValue ns = !ok ? JS_EXCEPTION : missing->len ? JS_UNDEFINED : evaluate(m);
    forget_later();
    free(made);
    made = NULL;
    sources = NULL;
    count = 0;
    return ns;
}

void modules_start(void) { JS_SetModuleLoaderFunc2(rt, normalize, load_module, NULL, NULL); }

// `import { … all of "wfhost" … } from "wfhost"; export const run = async (ctx, input) => {`, and a line's end.
void modules_scope(JSValueConst wfhost) {
    JSPropertyEnum *names = NULL;
    uint32_t len = 0;
    size_t size = 200;
    JS_GetOwnPropertyNames(ctx, &names, &len, wfhost, JS_GPN_STRING_MASK);
    for (uint32_t i = 0; i < len; i++) {
        const char *s = JS_AtomToCString(ctx, names[i].atom);
        size += strlen(s) + 1;
        JS_FreeCString(ctx, s);
    }
    prefix = need(size);
    strcpy(prefix, "import {");
    for (uint32_t i = 0; i < len; i++) {
        const char *s = JS_AtomToCString(ctx, names[i].atom);
        if (strcmp(s, "default")) strcat(strcat(prefix, s), ",");
        JS_FreeCString(ctx, s);
    }
    strcat(prefix, "} from \"wfhost\"; export const run = async (ctx, input) => {\n");
    JS_FreePropertyEnum(ctx, names, len);
}
