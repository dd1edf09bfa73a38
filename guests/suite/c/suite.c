// The conformance suite in C. ../README.md says what each entry does.
#include "wfhost.h"

#define IN(name) wf_get(wf_input(), name)
#define TEXT(name) wf_text(IN(name))
#define MS(name) WF_MS(wf_int(IN(name)))

static const char *kind_of(wf_future failed) { return wf_problem_of(failed)->kind.ptr; }
static wf_target parent(void) { return wf_named("parent"); }
static wf_future call_of(wf_value input) {
    const char *key = wf_text(wf_get(input, "key"));
    return wf_call(wf_text(wf_get(input, "handler")), wf_get(input, "args"),
                   .timeout = WF_MS(wf_int(wf_get(input, "timeout"))), .key = *key ? key : NULL);
}

// Values, time, problems

WF_TASK(echo, {}) { WF_BEGIN; WF_FINISH(wf_input()); }

WF_TASK(clock, { wf_micros before; bool still; }) {
    WF_BEGIN;
    s->before = wf_now();
    s->still = s->before == wf_now();
    WF_AWAIT(wf_sleep(MS("ms")));
    WF_FINISH(wf_json("{still: %b, waited: %b, recent: %b}", s->still, wf_now() - s->before >= MS("ms"),
                      s->before > WF_SECONDS(1735689600)));
}

// The indexes of futures in the order of their answers.
static wf_value in_order(wf_future *of, size_t count) {
    struct wf_node *order = wf_list();
    uint64_t last = 0;
    for (size_t n = 0; n < count; n++) {
        size_t next = count;
        for (size_t i = 0; i < count; i++)
            if (wf_order(of[i]) > last && (next == count || wf_order(of[i]) < wf_order(of[next]))) next = i;
        last = wf_order(of[next]);
        wf_push(order, wf_json("%d", (int)next));
    }
    return order;
}

WF_TASK(sleeps, { wf_future *all; }) {
    WF_BEGIN;
    s->all = wf_alloc(sizeof(wf_future) * wf_len(wf_input()));
    for (size_t i = 0; i < wf_len(wf_input()); i++) s->all[i] = wf_sleep(WF_MS(wf_int(wf_at(wf_input(), i))));
    WF_AWAIT(wf_all_n(wf_len(wf_input()), s->all));
    WF_FINISH(in_order(s->all, wf_len(wf_input())));
}

WF_TASK(twice, {}) { WF_BEGIN; WF_FINISH(wf_json("%l", 2 * wf_int(wf_input()))); }

WF_TASK(own, {}) {
    WF_BEGIN;
    WF_FAIL("out-of-stock", "Sold out", .detail = "sku a1", .status = 409, .class_ = WF_RETRYABLE, .retry_after = WF_MS(250),
            .data = wf_json("{sku: 'a1', left: 0}"));
    WF_END;
}

static bool fails(const char **why) { return *why = "no good", true; }
WF_TASK(crash, { const char *why; }) {
    WF_BEGIN;
    WF_AWAIT(wf_sleep(WF_MS(1)));
    if (fails(&s->why)) WF_THROW(s->why);
    WF_END;
}

WF_TASK(progress, {}) {
    WF_BEGIN;
    wf_expose("progress", wf_json("{done: 0}"));
    WF_AWAIT(wf_signal("go", 0));
    wf_expose("progress", wf_json("{done: 1}"));
    WF_AWAIT(wf_signal("end", 0));
    WF_FINISH(wf_string("ok"));
}

WF_TASK(logs, {}) {
    WF_BEGIN;
    for (wf_level level = WF_TRACE; level <= WF_ERROR; level++) wf_log_with(level, "a line", wf_json("{n: 1}"));
    WF_END;
}

static const char *hex(const uint8_t *bytes, size_t len) {
    char *text = wf_alloc(2 * len + 1);
    for (size_t i = 0; i < 2 * len; i++) text[i] = "0123456789abcdef"[i % 2 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4];
    return text;
}
WF_TASK(random, { uint8_t one[16], other[16]; }) {
    WF_BEGIN;
    wf_random(s->one, 16);
    wf_random(s->other, 16);
    WF_AWAIT(wf_call("note", wf_json("[%s, %s]", hex(s->one, 16), hex(s->other, 16))));
    WF_FINISH(wf_json("{length: %d, differ: %b}", 16, memcmp(s->one, s->other, 16) != 0));
}

WF_TASK(renew, { struct wf_node *seen; }) {
    WF_BEGIN;
    WF_AWAIT(wf_sleep(WF_MS(1)));
    if (wf_int(IN("left")) == 0) WF_RETURN(IN("seen"));
    s->seen = wf_list();
    for (size_t i = 0; i < wf_len(IN("seen")); i++) wf_push(s->seen, wf_at(IN("seen"), i));
    wf_push(s->seen, IN("left"));
    WF_RENEW("renew", wf_json("{left: %l, seen: %v}", wf_int(IN("left")) - 1, s->seen));
    WF_END;
}

WF_TASK(idler, {}) { WF_BEGIN; WF_AWAIT(wf_never()); WF_END; }

WF_TASK(nested, { wf_value list; int64_t depth; }) {
    WF_BEGIN;
    s->list = wf_list();
    for (s->depth = wf_int(IN("depth")); s->depth > 1; s->depth--) s->list = wf_json("[%v]", s->list);
    WF_FINISH(s->list);
}

WF_TASK(reverse, { wf_value bytes, output; char turned[256]; }) {
    WF_BEGIN;
    WF_GET(s->bytes, wf_call("bytes", NULL));
    for (size_t i = 0; i < 256; i++) s->turned[i] = s->bytes->text[255 - i];
    WF_GET(s->output, wf_spawn("pass", wf_bytes(s->turned, 256)));
    WF_FINISH(s->output);
}
WF_TASK(pass, {}) { WF_BEGIN; WF_FINISH(wf_input()); }

// Calls

WF_TASK(call, { wf_value answer; }) { WF_BEGIN; WF_GET(s->answer, call_of(wf_input())); WF_FINISH(s->answer); }

static wf_value optional(wf_opt_str text) { return text.some ? wf_json("%s", text.val.ptr) : NULL; }
WF_TASK(caught, { wf_future call; }) {
    WF_BEGIN;
    s->call = call_of(wf_input());
    WF_TRY(s->call);
    if (!wf_failed(s->call)) WF_RETURN(wf_json("{answer: %v}", wf_value_of(s->call)));
    const wf_problem *of = wf_problem_of(s->call);
    const char *const classes[] = {"definite", "retryable", "uncertain"};
    wf_value retry = of->retry_after.some ? wf_json("%l", (int64_t)(of->retry_after.val / 1000)) : NULL;
    wf_value data = of->data.some ? wf_parse(of->data.val.ptr, of->data.val.len) : NULL;
    WF_FINISH(wf_json("{kind: %s, title: %s, status: %d, detail: %v, class: %s, retry: %v, data: %v}", of->kind.ptr, of->title.ptr,
                      of->status, optional(of->detail), classes[of->class_], retry, data));
}

static wf_future *calls_of(wf_value input) {
    wf_future *all = wf_alloc(sizeof *all * wf_len(input));
    for (size_t i = 0; i < wf_len(input); i++) all[i] = call_of(wf_at(input, i));
    return all;
}
WF_TASK(parallel, { wf_future *all; wf_value outputs; }) {
    WF_BEGIN;
    s->all = calls_of(wf_input());
    WF_GET(s->outputs, wf_all_n(wf_len(wf_input()), s->all));
    WF_FINISH(wf_json("{outputs: %v, finished: %v}", s->outputs, in_order(s->all, wf_len(wf_input()))));
}
WF_TASK(settle, { wf_future *all; struct wf_node *settled; size_t i; }) {
    WF_BEGIN;
    s->all = calls_of(wf_input());
    s->settled = wf_list();
    for (; s->i < wf_len(wf_input()); s->i++) {
        WF_TRY(s->all[s->i]);
        wf_future one = s->all[s->i];
        wf_push(s->settled, wf_failed(one) ? wf_json("{problem: %s}", kind_of(one)) : wf_json("{value: %v}", wf_value_of(one)));
    }
    WF_FINISH(s->settled);
}

WF_TASK(delayed, { wf_value answer; }) {
    WF_BEGIN;
    WF_GET(s->answer, wf_call("delay", wf_json("{ms: 20, value: %v}", wf_input())));
    WF_FINISH(s->answer);
}
WF_TASK(limited, { struct wf_node *items; wf_value answers; }) {
    WF_BEGIN;
    s->items = wf_list();
    for (int64_t i = 0; i < wf_int(IN("items")); i++) wf_push(s->items, wf_json("%l", i));
    WF_GET(s->answers, wf_map((size_t)wf_int(IN("limit")), s->items, delayed));
    WF_FINISH(s->answers);
}

WF_TASK(loop, { int64_t i, sum; wf_value answer; wf_mark mark; }) {
    WF_BEGIN;
    for (s->i = 1; s->i <= wf_int(IN("n")); s->i++) {
        s->mark = wf_marked();
        WF_GET(s->answer, wf_call(TEXT("handler"), wf_json("{value: %l}", s->i)));
        s->sum += wf_int(wf_type_of(s->answer) == WF_OBJECT ? wf_get(s->answer, "value") : s->answer);
        wf_release(s->mark);
    }
    WF_FINISH(wf_json("%l", s->sum));
}

WF_TASK(race, { wf_future both; size_t winner; }) {
    WF_BEGIN;
    s->both = wf_race(wf_sleep(MS("ms")), wf_call("hang", wf_string("race")));
    WF_AWAIT(s->both);
    WF_AWAIT(wf_signal("go", 0));
    WF_FINISH(wf_string(wf_winner(s->both) == 0 ? "sleep" : "call"));
}
WF_TASK(revoke, { wf_future call; }) {
    WF_BEGIN;
    s->call = wf_call("hang", wf_string("revoke"));
    WF_AWAIT(wf_sleep(WF_MS(20)));
    wf_cancel(s->call);
    WF_AWAIT(wf_signal("go", 0));
    WF_FINISH(wf_string("revoked"));
}
WF_TASK(first, { wf_future both; }) {
    WF_BEGIN;
    s->both = wf_race(wf_signal(wf_text(wf_at(IN("names"), 0)), 0), wf_signal(wf_text(wf_at(IN("names"), 1)), 0));
    WF_AWAIT(s->both);
    WF_FINISH(wf_json("{name: %v, body: %v}", wf_at(IN("names"), wf_winner(s->both)), wf_value_of(s->both)));
}
WF_TASK(signal, { wf_value body; }) { WF_BEGIN; WF_GET(s->body, wf_signal(TEXT("name"), MS("timeout"))); WF_FINISH(s->body); }

// Children

WF_TASK(child, { wf_value output; }) {
    WF_BEGIN;
    const char *component = TEXT("component");
    WF_GET(s->output, wf_spawn(TEXT("entry"), IN("input"), .component = *component ? component : NULL));
    WF_FINISH(s->output);
}
WF_TASK(children, { wf_future *all; wf_value outputs; }) {
    WF_BEGIN;
    s->all = wf_alloc(sizeof(wf_future) * (size_t)wf_int(IN("n")));
    for (int64_t i = 0; i < wf_int(IN("n")); i++) s->all[i] = wf_spawn("twice", wf_json("%l", i + 1));
    WF_GET(s->outputs, wf_all_n((size_t)wf_int(IN("n")), s->all));
    WF_FINISH(s->outputs);
}
WF_TASK(fib, { int64_t n; wf_value both; }) {
    WF_BEGIN;
    s->n = wf_int(wf_input());
    if (s->n < 2) WF_RETURN(wf_input());
    WF_GET(s->both, wf_all(wf_spawn("fib", wf_json("%l", s->n - 1)), wf_spawn("fib", wf_json("%l", s->n - 2))));
    WF_FINISH(wf_json("%l", wf_int(wf_at(s->both, 0)) + wf_int(wf_at(s->both, 1))));
}
WF_TASK(stop, { wf_future child; wf_sender from; }) {
    WF_BEGIN;
    WF_AWAIT(wf_register("parent"));
    s->child = wf_spawn(TEXT("entry"), NULL);
    s->from = wf_from_child(s->child);
    WF_AWAIT(wf_receive(.topic = "ready", .from = &s->from));
    wf_stop(wf_child(s->child));
    WF_TRY(s->child);
    WF_FINISH(wf_failed(s->child) ? wf_json("{problem: %s}", kind_of(s->child)) : wf_json("{output: %v}", wf_value_of(s->child)));
}

// Says that it is ready, calls a handler that never answers, and ends when it is cancelled.
WF_TASK(hangs, { wf_future cancelled; }) {
    WF_BEGIN;
    wf_send(parent(), "ready", NULL);
    s->cancelled = wf_cancelled();
    WF_AWAIT(wf_race(s->cancelled, wf_call("hang", wf_input())));
    WF_FINISH(wf_string(wf_cancel_reason(s->cancelled)));
}
WF_TASK(cleanup, { wf_future cancelled; wf_value reason; }) {
    WF_BEGIN;
    s->cancelled = wf_cancelled();
    WF_GET(s->reason, wf_start(hangs, wf_string("cleanup")));
    WF_AWAIT(wf_call("note", wf_string("cleanup")));
    WF_FAIL("cancelled", "Cancelled", .detail = wf_text(s->reason));
    WF_END;
}
WF_TASK(stubborn, {}) {
    WF_BEGIN;
    WF_AWAIT(wf_start(hangs, wf_string("stubborn")));
    WF_FINISH(wf_string("completed anyway"));
}
WF_TASK(deaf, {}) {
    WF_BEGIN;
    WF_AWAIT(wf_start(hangs, wf_string("deaf")));
    WF_AWAIT(wf_call("note", wf_string("deaf")));
    WF_AWAIT(wf_sleep(WF_HOURS(1)));
    WF_END;
}
WF_TASK(waits, {}) { WF_BEGIN; WF_AWAIT(wf_call("hang", wf_string("waits"))); WF_END; }

WF_TASK(outlive, { wf_value output; }) {
    WF_BEGIN;
    WF_GET(s->output, wf_spawn("leaves", wf_input()));
    WF_AWAIT(wf_signal("go", 0));
    WF_FINISH(s->output);
}
WF_TASK(leaves, {}) {
    WF_BEGIN;
    wf_spawn("late", NULL, .detached = wf_bool(IN("detached")));
    WF_AWAIT(wf_sleep(WF_MS(50)));
    WF_FINISH(wf_string("left"));
}
WF_TASK(late, {}) {
    WF_BEGIN;
    WF_AWAIT(wf_call("delay", wf_json("{ms: 200, value: null}")));
    WF_AWAIT(wf_call("note", wf_string("late")));
    WF_END;
}
WF_TASK(linked, {}) {
    WF_BEGIN;
    wf_spawn("own", NULL, .link = true);
    WF_AWAIT(wf_call("hang", wf_string("linked")));
    WF_END;
}
WF_TASK(monitor, { wf_future exit; }) {
    WF_BEGIN;
    s->exit = wf_monitor(wf_child(wf_spawn(TEXT("entry"), IN("input"))));
    WF_AWAIT(s->exit);
    const char *const endings[] = {"completed", "failed", "cancelled"};
    if (wf_exit_of(s->exit) == WF_FAILED) WF_RETURN(wf_json("{ending: 'failed', kind: %s}", wf_exit_problem(s->exit)->kind.ptr));
    WF_FINISH(wf_json("{ending: %s}", endings[wf_exit_of(s->exit)]));
}
WF_TASK(deadline, { wf_future ended; }) {
    WF_BEGIN;
    s->ended = wf_timeout(wf_spawn("waits", NULL), MS("ms"));
    WF_TRY(s->ended);
    WF_AWAIT(wf_signal("go", 0));
    WF_FINISH(wf_string(wf_problem_is(s->ended, "timeout") ? "timed out" : "ended"));
}

// Messages and names

WF_TASK(names, { wf_value taken, hello; }) {
    WF_BEGIN;
    WF_AWAIT(wf_register("parent"));
    WF_GET(s->taken, wf_spawn("namesake", NULL));
    WF_GET(s->hello, wf_receive(.topic = "hello"));
    WF_FINISH(wf_json("{taken: %v, hello: %v}", s->taken, s->hello));
}
WF_TASK(namesake, { wf_future registered; }) {
    WF_BEGIN;
    s->registered = wf_register("parent");
    WF_TRY(s->registered);
    wf_send(parent(), "hello", wf_json("1"));
    WF_FINISH(wf_failed(s->registered) ? wf_string(kind_of(s->registered)) : NULL);
}
WF_TASK(nowhere, { wf_future sent; }) {
    WF_BEGIN;
    s->sent = wf_send_watched(wf_named("nobody"), "hello", NULL);
    WF_AWAIT(wf_sleep(WF_MS(20)));
    WF_FINISH(wf_failed(s->sent) ? wf_string(kind_of(s->sent)) : NULL);
}
WF_TASK(inbox, { struct wf_node *bodies; wf_value body; int i; }) {
    WF_BEGIN;
    WF_AWAIT(wf_register("parent"));
    WF_AWAIT(wf_spawn("talker", NULL));
    s->bodies = wf_list();
    for (; s->i < 6; s->i++) {
        WF_GET(s->body, wf_receive(.topic = s->i < 2 ? "b" : NULL));
        wf_push(s->bodies, s->body);
    }
    WF_FINISH(s->bodies);
}
WF_TASK(talker, {}) {
    WF_BEGIN;
    const char *const topics[] = {"a", "b", "a", "b", "c", "c"};
    for (int i = 0; i < 6; i++) wf_send(parent(), topics[i], wf_json("%d", i + 1));
    WF_END;
}
WF_TASK(from, { wf_sender x, y; wf_value first, second; }) {
    WF_BEGIN;
    WF_AWAIT(wf_register("parent"));
    s->x = wf_from_child(wf_spawn("speaker", wf_string("x")));
    s->y = wf_from_child(wf_spawn("speaker", wf_string("y")));
    WF_GET(s->second, wf_receive(.from = &s->y));
    WF_GET(s->first, wf_receive(.from = &s->x));
    WF_FINISH(wf_json("[%v, %v]", s->second, s->first));
}
WF_TASK(speaker, {}) { WF_BEGIN; wf_send(parent(), "said", wf_input()); WF_END; }
WF_TASK(patience, { wf_future got; }) {
    WF_BEGIN;
    s->got = wf_timeout(wf_receive(.topic = "none"), MS("ms"));
    WF_TRY(s->got);
    WF_FINISH(wf_json("{got: %v}", wf_value_of(s->got)));
}
WF_TASK(pingpong, { wf_target child; wf_value number; int64_t i; }) {
    WF_BEGIN;
    s->child = wf_child(wf_spawn("ponger", wf_input()));
    s->number = wf_json("0");
    for (; s->i < wf_int(IN("rounds")); s->i++) {
        wf_send(s->child, "ping", s->number);
        WF_GET(s->number, wf_receive(.topic = "pong"));
    }
    WF_FINISH(s->number);
}
WF_TASK(ponger, { wf_future ping; wf_target to; int64_t i; }) {
    WF_BEGIN;
    for (; s->i < wf_int(IN("rounds")); s->i++) {
        s->ping = wf_receive(.topic = "ping");
        WF_AWAIT(s->ping);
        if (wf_reply_to(s->ping, &s->to)) wf_send(s->to, "pong", wf_json("%l", wf_int(wf_value_of(s->ping)) + 1));
        wf_drop(&s->ping);
    }
    WF_END;
}
WF_TASK(mailbox, { wf_future got; }) {
    WF_BEGIN;
    WF_AWAIT(wf_register("mailbox"));
    s->got = wf_receive(.topic = "wfhost.signal");
    WF_AWAIT(s->got);
    WF_FINISH(wf_json("{from: %s, body: %v}", wf_sender_of(s->got).outside.ptr, wf_value_of(s->got)));
}

WF_EXPORT("The conformance suite.",
    { echo }, { clock }, { sleeps }, { twice, .input = "{\"type\":\"integer\"}" }, { own }, { crash },
    { progress }, { logs }, { random }, { renew }, { idler, .name = "never" }, { nested }, { reverse }, { pass },
    { call }, { caught }, { parallel }, { settle }, { limited }, { loop }, { race }, { revoke }, { first },
    { signal }, { child }, { children }, { fib }, { stop }, { cleanup }, { stubborn }, { deaf }, { waits },
    { outlive }, { leaves }, { late }, { linked }, { monitor }, { deadline }, { names }, { namesake }, { nowhere }, { inbox },
    { talker }, { from }, { speaker }, { patience }, { pingpong }, { ponger }, { mailbox })
