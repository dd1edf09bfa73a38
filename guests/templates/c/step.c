// A step of a workflow: `run` is its entry.
#include "wfhost.h"

WF_TASK(run, { wf_value name; }) { WF_BEGIN;
    s->name = wf_get(wf_input(), "name");
    if (!*wf_text(s->name)) WF_FAIL("no-name", "There is nobody to greet");
    WF_AWAIT(wf_sleep(WF_MS(10)));
    WF_FINISH(wf_json("{greeting: %s}", wf_format("Hello, %s!", wf_text(s->name))));
}

WF_EXPORT("Greets.", { run, "Greets somebody after a moment." })
