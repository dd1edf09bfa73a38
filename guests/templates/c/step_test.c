// Runs the step natively: `make test`.
#include "wfhost_test.h"
#include "step.c"

int main(void) {
    wft_begin();
    WFT_EQUAL(wft_run("run", "{\"name\":\"Ann\"}"), "{\"greeting\":\"Hello, Ann!\"}");
    WFT_CHECK(wft_passed() == WF_MS(10));
    return wft_end();
}
