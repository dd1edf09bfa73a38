// The conformance suite in Go. ../README.md says what each entry does.
package main

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/wfhost/wfhost/guests/go/wf"
)

type object = map[string]any

type duration struct {
	MS int64 `json:"ms"`
}

func (d duration) of() time.Duration { return ms(d.MS) }

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func echo(_ wf.Ctx, input any) (any, error) { return input, nil }

func clock(ctx wf.Ctx, input duration) (any, error) {
	before, again := ctx.Now(), ctx.Now()
	if err := ctx.Sleep(input.of()); err != nil {
		return nil, err
	}
	waited := ctx.Now().Sub(before) >= input.of()
	return object{"still": before.Equal(again), "waited": waited, "recent": before.Year() >= 2025}, nil
}

func sleeps(ctx wf.Ctx, all []int64) ([]int, error) {
	ends := []int{}
	slept := make([]*wf.Future[struct{}], len(all))
	for i, n := range all {
		slept[i] = wf.Go(ctx, func(ctx wf.Ctx) (struct{}, error) {
			err := ctx.Sleep(ms(n))
			ends = append(ends, i)
			return struct{}{}, err
		})
	}
	_, err := wf.All(slept...)
	return ends, err
}

func twice(_ wf.Ctx, n int64) (int64, error) { return 2 * n, nil }

func own(wf.Ctx) error {
	return &wf.Problem{
		Kind: "out-of-stock", Title: "Sold out", Status: 409, Detail: "sku a1", Class: wf.Retryable,
		RetryAfter: 250 * time.Millisecond, Data: json.RawMessage(`{"sku":"a1","left":0}`),
	}
}

func crash(ctx wf.Ctx) error {
	if err := ctx.Sleep(time.Millisecond); err != nil {
		return err
	}
	fails()
	return nil
}

func fails() { panic("no good") }

func progress(ctx wf.Ctx) (string, error) {
	wf.Check(ctx.Expose("progress", object{"done": 0}))
	wf.Signal[any](ctx, "go", 0).Must()
	wf.Check(ctx.Expose("progress", object{"done": 1}))
	wf.Signal[any](ctx, "end", 0).Must()
	return "ok", nil
}

func logs(ctx wf.Ctx) error {
	for level := wf.Trace; level <= wf.Error; level++ {
		ctx.Log(level, "a line", object{"n": 1})
	}
	return nil
}

func random(ctx wf.Ctx) (any, error) {
	one, other := ctx.Random(16), ctx.Random(16)
	wf.Call[any](ctx, "note", []string{hex.EncodeToString(one), hex.EncodeToString(other)}).Must()
	return object{"length": len(one), "differ": !slices.Equal(one, other)}, nil
}

type renewed struct {
	Left int   `json:"left"`
	Seen []int `json:"seen"`
}

func renew(ctx wf.Ctx, state renewed) ([]int, error) {
	if err := ctx.Sleep(time.Millisecond); err != nil || state.Left == 0 {
		return state.Seen, err
	}
	return nil, wf.Renew("renew", renewed{state.Left - 1, append(state.Seen, state.Left)})
}

func never(ctx wf.Ctx) error {
	_, err := ctx.Never().Wait()
	return err
}

func nested(_ wf.Ctx, input struct{ Depth int }) (any, error) {
	list := []any{}
	for range input.Depth - 1 {
		list = []any{list}
	}
	return list, nil
}

func reverse(ctx wf.Ctx) (wf.Bytes, error) {
	bytes, err := wf.Call[wf.Bytes](ctx, "bytes", nil).Wait()
	if err != nil {
		return nil, err
	}
	slices.Reverse(bytes)
	return wf.Spawn[wf.Bytes](ctx, "pass", bytes).Wait()
}

func pass(_ wf.Ctx, bytes wf.Bytes) (wf.Bytes, error) { return bytes, nil }

func main() {
	wf.Export(wf.Entries{
		"echo": echo, "clock": clock, "sleeps": sleeps, "twice": twice, "own": own, "crash": crash, "progress": progress,
		"logs": logs, "random": random, "renew": renew, "never": never, "nested": nested, "reverse": reverse, "pass": pass,
		"call": call, "caught": caught, "parallel": parallel, "settle": settle, "limited": limited, "loop": loop,
		"race": race, "revoke": revoke, "first": first, "signal": signal,
		"child": child, "children": children, "fib": fib, "stop": stop, "cleanup": cleanup, "stubborn": stubborn,
		"deaf": deaf, "waits": waits, "outlive": outlive, "leaves": leaves, "late": late, "linked": linked,
		"monitor": monitor, "deadline": deadline,
		"names": names, "namesake": namesake, "nowhere": nowhere, "inbox": inbox, "talker": talker, "from": from,
		"speaker": speaker, "patience": patience, "pingpong": pingpong, "ponger": ponger, "mailbox": mailbox,
	}, "The conformance suite.")
}
