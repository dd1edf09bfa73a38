/* jq's execute.c, numbering labels anew in each evaluation. A `break` is an error {"__jq": n}, with the number of its label, and an
 * expression can raise one itself: numbers that go on from one evaluation to the next would show in its outcome. */
#define jq_start jq_start_as_numbered
#include "execute.c"
#undef jq_start

void jq_start(jq_state *jq, jv input, int flags) {
  jq->next_label = 0;
  jq_start_as_numbered(jq, input, flags);
}
