package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/guests/go/wf"
	"github.com/wfhost/wfhost/guests/go/wftest"
)

func init() { main() }

func host(t *testing.T) *wftest.Host {
	host := wftest.New(t)
	host.Handle("echo", func(args json.RawMessage) (any, error) { return args, nil })
	host.Handle("note", func(json.RawMessage) (any, error) { return nil, nil })
	host.Handle("hang", func(json.RawMessage) (any, error) { return wftest.Never, nil })
	host.Handle("bytes", func(json.RawMessage) (any, error) { return wf.Bytes{1, 2, 3}, nil })
	host.Handle("fail", func(json.RawMessage) (any, error) { return nil, wf.NewProblem("too-busy", "Too busy") })
	host.Handle("delay", func(args json.RawMessage) (any, error) {
		var of struct {
			MS    int64
			Value any
		}
		err := json.Unmarshal(args, &of)
		return wftest.After(ms(of.MS), of.Value), err
	})
	return host
}

// The output of each entry as JSON, or `!` and the kind of its problem.
func TestEntries(t *testing.T) {
	cases := []struct{ entry, input, output string }{
		{"echo", `{"a":[9007199254740993,1.5,"<é\u0000>",null]}`, `{"a":[9007199254740993,1.5,"<é\u0000>",null]}`},
		{"call", `{"handler":"echo","args":{"a":1}}`, `{"a":1}`},
		{"call", `{"handler":"fail","args":1}`, `!too-busy`},
		{"call", `{"handler":"none","args":1}`, `!unknown-handler`},
		{"call", `{"handler":"hang","args":1,"timeout":50}`, `!timed-out`},
		{"parallel", `[{"handler":"delay","args":{"ms":9,"value":1}},{"handler":"delay","args":{"ms":1,"value":2}}]`, `{"finished":[1,0],"outputs":[1,2]}`},
		{"parallel", `[{"handler":"hang","args":1},{"handler":"fail","args":2}]`, `!too-busy`},
		{"settle", `[{"handler":"echo","args":1},{"handler":"fail","args":2}]`, `[{"value":1},{"problem":"too-busy"}]`},
		{"limited", `{"limit":3,"items":10}`, `[0,1,2,3,4,5,6,7,8,9]`},
		{"loop", `{"handler":"echo","n":500}`, `125250`},
		{"sleeps", `[160,10,80]`, `[1,2,0]`},
		{"clock", `{"ms":30}`, `{"recent":true,"still":true,"waited":true}`},
		{"fib", `8`, `21`},
		{"child", `{"entry":"twice","input":"x"}`, `!bad-input`},
		{"child", `{"entry":"own"}`, `!out-of-stock`},
		{"stop", `{"entry":"cleanup"}`, `{"problem":"cancelled"}`},
		{"stop", `{"entry":"stubborn"}`, `{"output":"completed anyway"}`},
		{"stop", `{"entry":"deaf"}`, `{"problem":"cancelled"}`},
		{"monitor", `{"entry":"own"}`, `{"ending":"failed","kind":"out-of-stock"}`},
		{"linked", `null`, `!cancelled`},
		{"inbox", `null`, `[2,4,1,3,5,6]`},
		{"from", `null`, `["y","x"]`},
		{"pingpong", `{"rounds":100}`, `100`},
		{"patience", `{"ms":30}`, `{"got":null}`},
		{"nowhere", `null`, `"no-process"`},
		{"names", `null`, `{"hello":1,"taken":"name-taken"}`},
		{"renew", `{"left":3,"seen":[]}`, `[3,2,1]`},
		{"never", `null`, `!blocked-on-nothing`},
		{"none", `null`, `!unknown-entry`},
	}
	for _, one := range cases {
		output, err := wftest.Run[wf.Payload](host(t), one.entry, json.RawMessage(one.input))
		found := string(output.Data)
		if err != nil {
			found = "!" + wf.KindOf(err)
		}
		if found != one.output {
			t.Errorf("%s %s: %s, not %s (%v)", one.entry, one.input, found, one.output, err)
		}
	}
}

func TestLosersAreCancelled(t *testing.T) {
	of := host(t)
	of.Signal("go", nil)
	if winner, err := wftest.Run[string](of, "race", map[string]int{"ms": 30}); winner != "sleep" || err != nil || of.Abandoned != 1 {
		t.Error(winner, err, of.Abandoned)
	}
	of = host(t)
	of.Signal("go", nil)
	if output, err := wftest.Run[string](of, "deadline", map[string]int{"ms": 100}); output != "timed out" || err != nil || of.Abandoned != 1 {
		t.Error(output, err, of.Abandoned)
	}
}

func TestThreeAtATime(t *testing.T) {
	of := host(t)
	_, err := wftest.Run[any](of, "limited", map[string]int{"limit": 3, "items": 10})
	if err != nil || of.Elapsed() != 80*time.Millisecond {
		t.Error(err, of.Elapsed())
	}
}

func TestCancel(t *testing.T) {
	of := host(t)
	of.CancelAfter(time.Second, "enough")
	_, err := wftest.Run[any](of, "waits", nil)
	if problem, ok := err.(*wf.Problem); !ok || problem.Kind != "cancelled" || problem.Detail != "enough" {
		t.Error(err)
	}
}

func TestPanicHasItsPlace(t *testing.T) {
	_, err := wftest.Run[any](host(t), "crash", nil)
	problem, ok := err.(*wf.Problem)
	if !ok || problem.Kind != "exception" || problem.Title != "no good" || !strings.Contains(problem.Detail, "suite.go:") || !strings.Contains(string(problem.Data), ".fails") {
		t.Errorf("%+v", problem)
	}
}

func TestDescription(t *testing.T) {
	var description struct{ Entries map[string]map[string]any }
	if err := json.Unmarshal([]byte(wf.Describe()), &description); err != nil {
		t.Fatal(err)
	}
	input, _ := json.Marshal(description.Entries["renew"]["input"])
	if string(input) != `{"properties":{"left":{"type":"integer"},"seen":{"items":{"type":"integer"},"type":["array","null"]}},"type":"object"}` {
		t.Error(string(input))
	}
}
