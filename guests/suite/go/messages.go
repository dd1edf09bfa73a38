package main

import (
	"time"

	"github.com/wfhost/wfhost/guests/go/wf"
)

func send(ctx wf.Ctx, topic string, body any) *wf.Sent {
	return wf.Must(wf.Send(ctx, wf.Named("parent"), topic, body))
}

func names(ctx wf.Ctx) (any, error) {
	wf.Check(ctx.Register("parent"))
	taken := wf.Spawn[any](ctx, "namesake", nil).Must()
	return object{"taken": taken, "hello": wf.Receive[any](ctx, wf.Topic("hello")).Must().Body}, nil
}

func namesake(ctx wf.Ctx) (string, error) {
	refusal := ctx.Register("parent")
	send(ctx, "hello", 1)
	return wf.KindOf(refusal), nil
}

func nowhere(ctx wf.Ctx) (any, error) {
	sent := wf.Must(wf.Send(ctx, wf.Named("nobody"), "hello", nil))
	wf.Check(ctx.Sleep(20 * time.Millisecond))
	if refusal := sent.Refusal(); refusal != nil {
		return refusal.Kind, nil
	}
	return nil, nil
}

func inbox(ctx wf.Ctx) ([]int, error) {
	wf.Check(ctx.Register("parent"))
	wf.Spawn[any](ctx, "talker", nil).Must()
	bodies := []int{}
	for range 2 {
		bodies = append(bodies, wf.Receive[int](ctx, wf.Topic("b")).Must().Body)
	}
	for range 4 {
		bodies = append(bodies, wf.Receive[int](ctx).Must().Body)
	}
	return bodies, nil
}

func talker(ctx wf.Ctx) error {
	for i, topic := range []string{"a", "b", "a", "b", "c", "c"} {
		send(ctx, topic, i+1)
	}
	return nil
}

func from(ctx wf.Ctx) ([]string, error) {
	wf.Check(ctx.Register("parent"))
	x, y := wf.Spawn[any](ctx, "speaker", "x"), wf.Spawn[any](ctx, "speaker", "y")
	second := wf.Receive[string](ctx, wf.From(y.Sender())).Must()
	first := wf.Receive[string](ctx, wf.From(x.Sender())).Must()
	return []string{second.Body, first.Body}, nil
}

func speaker(ctx wf.Ctx, text string) error {
	send(ctx, "said", text)
	return nil
}

func patience(ctx wf.Ctx, input duration) (any, error) {
	message, err := wf.Receive[any](ctx, wf.Topic("none"), wf.Timeout(input.of())).Wait()
	if wf.KindOf(err) == "timeout" {
		return object{"got": nil}, nil
	}
	return object{"got": message.Body}, err
}

type rounds struct {
	Rounds int `json:"rounds"`
}

func pingpong(ctx wf.Ctx, input rounds) (number int, _ error) {
	child := wf.Spawn[any](ctx, "ponger", input)
	for range input.Rounds {
		wf.Must(child.Send("ping", number))
		number = wf.Receive[int](ctx, wf.Topic("pong")).Must().Body
	}
	return number, nil
}

func ponger(ctx wf.Ctx, input rounds) error {
	for range input.Rounds {
		ping := wf.Receive[int](ctx, wf.Topic("ping")).Must()
		if to, ok := ping.Sender.Target(); ok {
			wf.Must(wf.Send(ctx, to, "pong", ping.Body+1))
		}
	}
	return nil
}

func mailbox(ctx wf.Ctx) (any, error) {
	wf.Check(ctx.Register("mailbox"))
	message, err := wf.Receive[any](ctx, wf.Topic("wfhost.signal")).Wait()
	return object{"from": message.Sender.Name, "body": message.Body}, err
}
