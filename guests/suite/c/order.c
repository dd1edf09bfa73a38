#include "wfhost.h"

WF_TASK(ask, { wf_value price; }) { WF_BEGIN;
    WF_GET(s->price, wf_call("price", wf_json("{id: %v}", wf_input())));
    WF_FINISH(s->price);
}
WF_TASK(total, { int64_t sum; }) { WF_BEGIN;
    for (size_t i = 0; i < wf_len(wf_input()); i++) s->sum += wf_int(wf_at(wf_input(), i));
    WF_FINISH(wf_json("%l", s->sum));
}
WF_TASK(run, { wf_value prices, total, approval; }) { WF_BEGIN;
    WF_GET(s->prices, wf_map(0, wf_get(wf_input(), "ids"), ask));
    WF_AWAIT(wf_sleep(WF_MS(10)));
    WF_GET(s->total, wf_spawn("total", s->prices));
    wf_log(WF_INFO, "total is %v", s->total);
    WF_GET(s->approval, wf_signal("approve", WF_HOURS(24)));
    WF_FINISH(wf_json("{total: %v, by: %v}", s->total, wf_get(s->approval, "by")));
}
WF_EXPORT("Orders.", { run, "Adds up the prices, and waits for an approval." }, { total })
