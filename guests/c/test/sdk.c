// Tests of the SDK: the suite's entries and some of its own, on the host for tests.
#include "wfhost_test.h"
#include "../../suite/c/suite.c"

static const char *echo_handler(const char *args) { return args; }
static const char *hang(const char *args) { return (void)args, NULL; }
static const char *fail(const char *args) { return (void)args, wft_refuse("too-busy", "Too busy"), NULL; }
static const char *null(const char *args) { return (void)args, "null"; }
static const char *delay(const char *args) {
    wf_arena arena = {0};
    wf_value of = wf_parse_in_(&arena, args, strlen(args));
    static char text[64];
    snprintf(text, sizeof text, "%lld", (long long)wf_int(wf_get(of, "value")));
    wft_answer_after(WF_MS(wf_int(wf_get(of, "ms"))), text);
    return wf_free_(&arena), NULL;
}

static void begin(void) {
    wft_end();
    wft_begin();
    wft_handler("echo", echo_handler);
    wft_handler("hang", hang);
    wft_handler("fail", fail);
    wft_handler("note", null);
    wft_handler("delay", delay);
}
#define OUTPUT(entry, input, output) do { begin(); WFT_EQUAL(wft_run(entry, input), output); } while (0)
#define PROBLEM(entry, input, kind) \
    do { begin(); WFT_EQUAL(wft_run(entry, input), NULL); WFT_EQUAL(wft_problem(), kind); } while (0)

static void values(void) {
    OUTPUT("echo", "{\"a\":[1,-0.5e3,\"x\\u00e9\\ud83d\\ude80\\u0000\",null,true],\"b\":{}}", "{\"a\":[1,-0.5e3,\"xé🚀\\u0000\",null,true],\"b\":{}}");
    OUTPUT("nested", "{\"depth\":4}", "[[[[]]]]");
    const char *const wrong[] = {"", "[1,]", "{\"a\"}", "01", "1.", "tru", "\"\\x\"", "\"a", "[1] 2", "{a:1}", "'x'", "\"\n\""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) PROBLEM("echo", wrong[i], "bad-input");
    char deep[300];
    memset(deep, '[', 150), memset(deep + 150, ']', 149), deep[299] = 0;
    PROBLEM("echo", deep, "bad-input");
}
static void numbers(void) {
    static const struct { const char *text; bool fits; int64_t value; } cases[] = {
        {"12.0", true, 12}, {"1.2e1", true, 12}, {"-0", true, 0}, {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0}, {"1.5", false, 0}, {"120e-1", true, 12}, {"1e-1", false, 0}, {"0e99999", true, 0}, {"1e99999", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wf_arena arena = {0};
        int64_t value = 0;
        bool fits = wf_integer(wf_parse_in_(&arena, cases[i].text, strlen(cases[i].text)), &value);
        wft_check_(fits == cases[i].fits && value == cases[i].value, cases[i].text, __FILE__, __LINE__);
        wf_free_(&arena);
    }
}
static void calls(void) {
    OUTPUT("call", "{\"handler\":\"echo\",\"args\":{\"a\":1}}", "{\"a\":1}");
    PROBLEM("call", "{\"handler\":\"fail\",\"args\":1}", "too-busy");
    PROBLEM("call", "{\"handler\":\"none\",\"args\":1}", "unknown-handler");
    PROBLEM("call", "{\"handler\":\"hang\",\"args\":1,\"timeout\":50}", "timed-out");
    WFT_CHECK(wft_passed() == WF_MS(50));
    OUTPUT("settle", "[{\"handler\":\"echo\",\"args\":1},{\"handler\":\"fail\",\"args\":2}]", "[{\"value\":1},{\"problem\":\"too-busy\"}]");
    OUTPUT("parallel", "[{\"handler\":\"delay\",\"args\":{\"ms\":9,\"value\":1}},{\"handler\":\"delay\",\"args\":{\"ms\":1,\"value\":2}}]",
           "{\"outputs\":[1,2],\"finished\":[1,0]}");
    PROBLEM("parallel", "[{\"handler\":\"hang\",\"args\":1},{\"handler\":\"fail\",\"args\":2}]", "too-busy");
    WFT_CHECK(wft_abandoned() == 1);
    OUTPUT("limited", "{\"limit\":3,\"items\":10}", "[0,1,2,3,4,5,6,7,8,9]");
    WFT_CHECK(wft_passed() == WF_MS(80));
    OUTPUT("loop", "{\"handler\":\"echo\",\"n\":1000}", "500500");
    OUTPUT("sleeps", "[160,10,80]", "[1,2,0]");
}
static void races(void) {
    begin();
    wft_signal("go", "null");
    WFT_EQUAL(wft_run("race", "{\"ms\":30}"), "\"sleep\"");
    WFT_CHECK(wft_abandoned() == 1);
    begin();
    wft_signal("b", "2");
    WFT_EQUAL(wft_run("first", "{\"names\":[\"a\",\"b\"]}"), "{\"name\":\"b\",\"body\":2}");
    begin();
    wft_signal("go", "null");
    WFT_EQUAL(wft_run("deadline", "{\"ms\":100}"), "\"timed out\"");
    OUTPUT("patience", "{\"ms\":30}", "{\"got\":null}");
}
static void family(void) {
    OUTPUT("fib", "8", "21");
    PROBLEM("child", "{\"entry\":\"twice\",\"input\":\"x\"}", "bad-input");
    PROBLEM("child", "{\"entry\":\"own\"}", "out-of-stock");
    OUTPUT("stop", "{\"entry\":\"cleanup\"}", "{\"problem\":\"cancelled\"}");
    WFT_CHECK(wft_called("note", "\"cleanup\""));
    OUTPUT("stop", "{\"entry\":\"stubborn\"}", "{\"output\":\"completed anyway\"}");
    OUTPUT("stop", "{\"entry\":\"deaf\"}", "{\"problem\":\"cancelled\"}");
    OUTPUT("monitor", "{\"entry\":\"own\"}", "{\"ending\":\"failed\",\"kind\":\"out-of-stock\"}");
    PROBLEM("linked", "null", "cancelled");
    begin();
    wft_cancel_at(WF_MS(5), "enough");
    WFT_EQUAL(wft_run("waits", "null"), NULL);
    WFT_EQUAL(wft_problem(), "cancelled");
    WFT_EQUAL(wft_detail(), "enough");
}
static void messages(void) {
    OUTPUT("inbox", "null", "[2,4,1,3,5,6]");
    OUTPUT("from", "null", "[\"y\",\"x\"]");
    OUTPUT("pingpong", "{\"rounds\":100}", "100");
    OUTPUT("nowhere", "null", "\"no-process\"");
    OUTPUT("names", "null", "{\"taken\":\"name-taken\",\"hello\":1}");
    begin();
    wft_signal("go", "1");
    wft_signal("end", "1");
    WFT_EQUAL(wft_run("progress", "null"), "\"ok\"");
    WFT_EQUAL(wft_query("progress"), "{\"done\":1}");
}
static void ends(void) {
    PROBLEM("crash", "null", "exception");
    WFT_CHECK(strstr(wft_detail(), "suite.c:") != NULL);
    PROBLEM("never", "null", "blocked-on-nothing");
    PROBLEM("no-such-entry", "null", "unknown-entry");
    OUTPUT("renew", "{\"left\":3,\"seen\":[]}", "[3,2,1]");
    OUTPUT("random", "null", "{\"length\":16,\"differ\":true}");
    OUTPUT("logs", "null", "null");
    WFT_EQUAL(wft_log_line(4), "a line");
}

int main(void) {
    values();
    numbers();
    calls();
    races();
    family();
    messages();
    ends();
    if (wft_end()) return 1;
    puts("ok");
}
