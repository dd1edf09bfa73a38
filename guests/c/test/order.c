// The test of ../../suite/c/order.c that README.md shows.
#include "wfhost_test.h"
#include "../../suite/c/order.c"

static const char *price(const char *args) { return (void)args, "20"; }

int main(void) {
    wft_begin();
    wft_handler("price", price);
    wft_signal("approve", "{\"by\":\"Ann\"}");
    WFT_EQUAL(wft_run("run", "{\"ids\":[1,2]}"), "{\"total\":40,\"by\":\"Ann\"}");
    WFT_EQUAL(wft_log_line(0), "total is 40");
    WFT_CHECK(wft_called("price", "{\"id\":2}") && wft_passed() == WF_MS(10));
    return wft_end();
}
