package main

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/wfhost/wfhost/guests/go/wf"
)

type request struct {
	Handler string          `json:"handler"`
	Args    json.RawMessage `json:"args"`
	Timeout int64           `json:"timeout"`
	Key     string          `json:"key"`
}

func (r request) begin(ctx wf.Ctx) *wf.Future[any] {
	return wf.Call[any](ctx, r.Handler, r.Args, wf.Timeout(ms(r.Timeout)), wf.Key(r.Key))
}

func call(ctx wf.Ctx, input request) (any, error) { return input.begin(ctx).Wait() }

func caught(ctx wf.Ctx, input request) (any, error) {
	answer, err := input.begin(ctx).Wait()
	if err == nil {
		return object{"answer": answer}, nil
	}
	var of *wf.Problem
	if !errors.As(err, &of) {
		return nil, err
	}
	known := object{"kind": of.Kind, "title": of.Title, "status": of.Status, "detail": nil, "class": of.Class.String(), "retry": nil, "data": of.Data}
	if of.Detail != "" {
		known["detail"] = of.Detail
	}
	if of.RetryAfter > 0 {
		known["retry"] = of.RetryAfter.Milliseconds()
	}
	return known, nil
}

func parallel(ctx wf.Ctx, input []request) (any, error) {
	finished := []int{}
	calls := make([]*wf.Future[any], len(input))
	for i, one := range input {
		calls[i] = wf.Go(ctx, func(ctx wf.Ctx) (any, error) {
			answer, err := one.begin(ctx).Wait()
			finished = append(finished, i)
			return answer, err
		})
	}
	outputs, err := wf.All(calls...)
	return object{"outputs": outputs, "finished": finished}, err
}

func settle(ctx wf.Ctx, input []request) (any, error) {
	calls := make([]*wf.Future[any], len(input))
	for i, one := range input {
		calls[i] = one.begin(ctx)
	}
	settled := make([]object, len(input))
	for i, one := range calls {
		if value, err := one.Wait(); err != nil {
			settled[i] = object{"problem": wf.KindOf(err)}
		} else {
			settled[i] = object{"value": value}
		}
	}
	return settled, nil
}

func limited(ctx wf.Ctx, input struct{ Limit, Items int }) ([]int, error) {
	items := make([]int, input.Items)
	for i := range items {
		items[i] = i
	}
	return wf.Map(ctx, input.Limit, items, func(ctx wf.Ctx, i int) (int, error) {
		return wf.Call[int](ctx, "delay", object{"ms": 20, "value": i}).Wait()
	})
}

// counted is {"value":i}, or i.
type counted int64

func (c *counted) UnmarshalJSON(text []byte) error {
	var object struct{ Value int64 }
	if text[0] != '{' {
		return json.Unmarshal(text, (*int64)(c))
	}
	err := json.Unmarshal(text, &object)
	*c = counted(object.Value)
	return err
}

func loop(ctx wf.Ctx, input struct {
	Handler string
	N       int
}) (sum counted, _ error) {
	for i := 1; i <= input.N; i++ {
		answer, err := wf.Call[counted](ctx, input.Handler, object{"value": i}).Wait()
		if err != nil {
			return 0, err
		}
		sum += answer
	}
	return sum, nil
}

func race(ctx wf.Ctx, input duration) (string, error) {
	winner := wf.Race(ctx.After(input.of()), wf.Call[any](ctx, "hang", "race"))
	_, err := wf.Signal[any](ctx, "go", 0).Wait()
	return []string{"sleep", "call"}[winner], err
}

func revoke(ctx wf.Ctx) (string, error) {
	call := wf.Call[any](ctx, "hang", "revoke")
	if err := ctx.Sleep(20 * time.Millisecond); err != nil {
		return "", err
	}
	call.Cancel()
	_, err := wf.Signal[any](ctx, "go", 0).Wait()
	return "revoked", err
}

func first(ctx wf.Ctx, input struct{ Names [2]string }) (any, error) {
	a, b := wf.Signal[any](ctx, input.Names[0], 0), wf.Signal[any](ctx, input.Names[1], 0)
	winner := wf.Race(a, b)
	body, err := []*wf.Future[any]{a, b}[winner].Wait()
	return object{"name": input.Names[winner], "body": body}, err
}

func signal(ctx wf.Ctx, input struct {
	Name    string
	Timeout int64
}) (any, error) {
	return wf.Signal[any](ctx, input.Name, ms(input.Timeout)).Wait()
}
