// Events to objects, and what a step has come to back to the contract.
#include "engine.h"

static JSValue js_sender(const wfhost_process_types_sender_t *s) {
    JSValue o = JS_NewObject(ctx);
    switch (s->tag) {
    case WFHOST_PROCESS_TYPES_SENDER_CHILD: set(o, "child", JS_NewInt64(ctx, (int64_t)s->val.child)); break;
    case WFHOST_PROCESS_TYPES_SENDER_PROCESS: set(o, "process", JS_NewInt64(ctx, (int64_t)s->val.process)); break;
    case WFHOST_PROCESS_TYPES_SENDER_CALL: set(o, "call", JS_NewInt64(ctx, (int64_t)s->val.call)); break;
    default: set(o, "outside", js_text(s->val.outside));
    }
    return o;
}

JSValue js_event(const wfhost_process_types_event_t *e) {
    JSValue o = JS_NewObjectProto(ctx, JS_NULL); // what a script adds to all objects is no member of it
    const char *kind = "";
    switch (e->tag) {
    case WFHOST_PROCESS_TYPES_EVENT_COMPLETED: {
        const wfhost_process_types_completion_t *c = &e->val.completed;
        kind = c->answer.is_err ? "failed" : "completed";
        set(o, "tag", JS_NewInt64(ctx, (int64_t)c->tag));
        set(o, "value", c->answer.is_err ? js_problem(&c->answer.val.err) : js_payload(&c->answer.val.ok));
        break;
    }
    case WFHOST_PROCESS_TYPES_EVENT_MESSAGE:
        kind = "message";
        set(o, "sender", js_sender(&e->val.message.sender));
        set(o, "topic", js_text(e->val.message.topic));
        set(o, "body", js_payload(&e->val.message.body));
        break;
    case WFHOST_PROCESS_TYPES_EVENT_EXITED: {
        const wfhost_process_types_exit_t *x = &e->val.exited;
        kind = "exited";
        set(o, "pid", JS_NewInt64(ctx, (int64_t)x->pid));
        set(o, "tag", JS_NewInt64(ctx, (int64_t)x->by));
        set(o, "ending", JS_NewString(ctx, x->ending.tag == 0 ? "completed" : x->ending.tag == 1 ? "failed" : "cancelled"));
        if (x->ending.tag == 1) set(o, "problem", js_problem(&x->ending.val.failed));
        break;
    }
    default:
        kind = "cancel";
        set(o, "reason", js_text(e->val.cancel.reason));
        set(o, "grace", JS_NewFloat64(ctx, (double)e->val.cancel.grace / 1000));
    }
    set(o, "event", JS_NewString(ctx, kind));
    return o;
}

static bool is(JSValueConst o, const char *name, JSValue *v) {
    JS_FreeValue(ctx, *v);
    *v = get(o, name);
    return !JS_IsUndefined(*v);
}

static void get_target(JSValueConst o, const char *name, wfhost_process_types_target_t *t) {
    JSValue to = get(o, name), v = JS_UNDEFINED;
    if (is(to, "process", &v)) *t = (wfhost_process_types_target_t){.tag = WFHOST_PROCESS_TYPES_TARGET_PROCESS, .val.process = number_from(v)};
    else if (is(to, "child", &v)) *t = (wfhost_process_types_target_t){.tag = WFHOST_PROCESS_TYPES_TARGET_CHILD, .val.child = number_from(v)};
    else if (is(to, "run", &v)) {
        t->tag = WFHOST_PROCESS_TYPES_TARGET_RUN;
        t->val.run.run = text_from(v);
        t->val.run.name = get_text(to, "name");
    } else *t = (wfhost_process_types_target_t){.tag = WFHOST_PROCESS_TYPES_TARGET_NAME, .val.name = get_text(to, "name")};
    JS_FreeValue(ctx, v);
    JS_FreeValue(ctx, to);
}

// A command is { tag, <action>: … }. Properties are named as in the contract, in camel case.
static void command_from(JSValueConst o, wfhost_process_types_command_t *c) {
    JSValue v = JS_UNDEFINED;
    c->tag = get_number(o, "tag");
    if (is(o, "sleep", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_SLEEP;
        c->action.val.sleep = number_from(v);
    } else if (is(o, "call", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_CALL;
        c->action.val.call.handler = text_from(v);
        c->action.val.call.args = payload_from(get(o, "args"));
        JSValue timeout = get(o, "timeout");
        c->action.val.call.timeout.is_some = !absent(timeout);
        c->action.val.call.timeout.val = number_from(timeout);
        JS_FreeValue(ctx, timeout);
        get_option(o, "key", &c->action.val.call.idempotency_key);
    } else if (is(o, "spawn", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_SPAWN;
        c->action.val.spawn.entry = text_from(v);
        get_option(o, "component", &c->action.val.spawn.component);
        c->action.val.spawn.input = payload_from(get(o, "input"));
        get_option(o, "name", &c->action.val.spawn.name);
        c->action.val.spawn.link = get_bool(o, "link");
        c->action.val.spawn.detached = get_bool(o, "detached");
        get_option(o, "narrow", &c->action.val.spawn.narrow);
    } else if (is(o, "send", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_SEND;
        c->action.val.send.topic = text_from(v);
        get_target(o, "to", &c->action.val.send.to);
        c->action.val.send.body = payload_from(get(o, "body"));
    } else if (is(o, "cancel", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_CANCEL;
        c->action.val.cancel = number_from(v);
    } else if (is(o, "register", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_REGISTER;
        c->action.val.register_ = text_from(v);
    } else if (is(o, "expose", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_EXPOSE;
        c->action.val.expose.query = text_from(v);
        c->action.val.expose.value = payload_from(get(o, "value"));
    } else if (is(o, "stop", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_STOP;
        get_target(o, "stop", &c->action.val.stop);
    } else if (is(o, "monitor", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_MONITOR;
        get_target(o, "monitor", &c->action.val.monitor);
    } else if (is(o, "link", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_LINK;
        get_target(o, "link", &c->action.val.link);
    } else if (is(o, "unlink", &v)) {
        c->action.tag = WFHOST_PROCESS_TYPES_ACTION_UNLINK;
        get_target(o, "unlink", &c->action.val.unlink);
    } else {
        __builtin_trap(); // a fault of the module "wfhost"
    }
    JS_FreeValue(ctx, v);
}

void outcome_from(JSValueConst o, wfhost_process_types_outcome_t *ret) {
    static const char *const NAMES[] = {"ready", "blocked", "idle", "complete", "failed", "renew"};
    Text status = get_text(o, "status");
    for (uint8_t i = 0; i < 6; i++) {
        if (status.len == strlen(NAMES[i]) && !memcmp(status.ptr, NAMES[i], status.len)) ret->status.tag = i;
    }
    script_engine_string_free(&status);
    if (ret->status.tag == WFHOST_PROCESS_TYPES_STATUS_COMPLETE) ret->status.val.complete = payload_from(get(o, "value"));
    if (ret->status.tag == WFHOST_PROCESS_TYPES_STATUS_FAILED) problem_from(get(o, "value"), &ret->status.val.failed);
    if (ret->status.tag == WFHOST_PROCESS_TYPES_STATUS_RENEW) {
        ret->status.val.renew.entry = get_text(o, "entry");
        ret->status.val.renew.input = payload_from(get(o, "value"));
    }
    JSValue list = get(o, "commands");
    int64_t len = 0;
    JS_GetLength(ctx, list, &len);
    if (len) {
        ret->commands.len = (size_t)len;
        ret->commands.ptr = need((size_t)len * sizeof *ret->commands.ptr);
        for (int64_t i = 0; i < len; i++) {
            JSValue c = JS_GetPropertyUint32(ctx, list, (uint32_t)i);
            command_from(c, &ret->commands.ptr[i]);
            JS_FreeValue(ctx, c);
        }
    }
    JS_FreeValue(ctx, list);
}
