package wf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Future is what will be known: the answer to a call, a message, the end of a goroutine.
type Future[T any] struct {
	slot *slot
	read func(*slot) (T, error)
}

// Awaitable is any Future, for Select and Race.
type Awaitable interface{ awaited() *slot }

func (f *Future[T]) awaited() *slot { return f.slot }

// Wait waits until it is known. The error is a *Problem.
func (f *Future[T]) Wait() (T, error) {
	f.slot.wait()
	if f.slot.problem != nil {
		var none T
		return none, f.slot.problem
	}
	return f.read(f.slot)
}

// Must is Wait, and ends the entry, or the goroutine, with the error.
func (f *Future[T]) Must() T { return Must(f.Wait()) }

// Must ends the entry, or the goroutine, with the error if there is one.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Check ends the entry, or the goroutine, with the error if there is one.
func Check(err error) {
	if err != nil {
		panic(unhandled{err})
	}
}

// unhandled is the panic of Check: it passes its error on.
type unhandled struct{ err error }

// Ready says whether Wait would return at once.
func (f *Future[T]) Ready() bool { return f.slot.settled }

// Cancel gives it up: what it asked for is cancelled, and Wait fails as `cancelled`.
func (f *Future[T]) Cancel() { f.slot.giveUp(cancelled("It was given up")) }

func decoded[T any](s *slot) (T, error) { return Decode[T](s.payload) }

func none(*slot) (struct{}, error) { return struct{}{}, nil }

// Decode reads a payload: Payload and Bytes unchanged, all other types as JSON.
func Decode[T any](payload Payload) (T, error) {
	var value T
	err := decode(payload, &value)
	return value, err
}

func decode(payload Payload, into any) error {
	switch of := into.(type) {
	case *Payload:
		*of = payload
		return nil
	case *Bytes:
		if payload.Form != FormBytes {
			return notThat(payload)
		}
		*of = payload.Data
		return nil
	case *struct{}:
		return nil
	}
	if payload.Form != FormJSON {
		return notThat(payload)
	}
	decoder := json.NewDecoder(bytes.NewReader(payload.Data))
	// Integers of any size stay exact in an `any`: there they are json.Number.
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return &Problem{Kind: "bad-json", Title: "A value does not fit its JSON", Detail: err.Error()}
	}
	return nil
}

func notThat(payload Payload) error {
	found := [...]string{"JSON", "bytes", "a blob"}[payload.Form]
	return &Problem{Kind: "bad-payload", Title: "The payload has another form than expected", Detail: "found " + found}
}

// Encode makes a payload: of Payload and Bytes unchanged, of all else JSON.
func Encode(value any) (Payload, error) {
	switch of := value.(type) {
	case nil:
		return null, nil
	case Payload:
		return of, nil
	case Bytes:
		return Payload{Form: FormBytes, Data: of}, nil
	case struct{}:
		return null, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return null, &Problem{Kind: "bad-json", Title: "A value has no JSON form", Detail: err.Error()}
	}
	return Payload{Data: bytes.TrimSuffix(text.Bytes(), []byte("\n"))}, nil
}

// refused is a future that has failed already.
func refused[T any](ctx Ctx, err error) *Future[T] {
	made := ctx.process.slot(ctx.scope)
	made.settle(problemOf(err))
	return &Future[T]{made, decoded[T]}
}

// Select waits until one of these is known, and returns its index. The others go on.
func Select(of ...Awaitable) int {
	if len(of) == 0 {
		panic("wf: Select of nothing")
	}
	for {
		for i, one := range of {
			if one.awaited().settled {
				return i
			}
		}
		p := of[0].awaited().process
		if p.current == nil {
			panic("wf: waited outside of an entry, or in a goroutine that wf.Go did not start")
		}
		me := p.current
		for _, one := range of {
			one.awaited().waiting = append(one.awaited().waiting, me)
		}
		p.park()
		for _, one := range of {
			one.awaited().waiting = slices.DeleteFunc(one.awaited().waiting, func(t *task) bool { return t == me })
		}
	}
}

// Race is Select, and cancels the others.
func Race(of ...Awaitable) int {
	first := Select(of...)
	for i, one := range of {
		if i != first {
			one.awaited().giveUp(cancelled("Another was first"))
		}
	}
	return first
}

// All waits for all of these: their values in order, or the first error, for which the others are
// cancelled.
func All[T any](of ...*Future[T]) ([]T, error) {
	values := make([]T, len(of))
	left := make([]Awaitable, 0, len(of))
	index := make([]int, 0, len(of))
	for i, one := range of {
		left, index = append(left, one), append(index, i)
	}
	for len(left) > 0 {
		at := Select(left...)
		value, err := of[index[at]].Wait()
		if err != nil {
			for _, one := range left {
				one.awaited().giveUp(cancelled("Another has failed"))
			}
			return nil, err
		}
		values[index[at]] = value
		left, index = slices.Delete(left, at, at+1), slices.Delete(index, at, at+1)
	}
	return values, nil
}

// Go runs a function beside the caller, in a goroutine of its own. Guests start goroutines that wait
// for anything with it only; `go` is for those that compute. A panic is its error.
func Go[T any](ctx Ctx, run func(Ctx) (T, error)) *Future[T] {
	made := ctx.process.slot(ctx.scope)
	future := &Future[T]{made, func(s *slot) (T, error) { return s.value.(T), nil }}
	if made.settled {
		return future
	}
	inner := Ctx{ctx.process, newScope(ctx.process, ctx.scope)}
	made.cancel = func() { inner.scope.cancel(cancelled("It was given up")) }
	ctx.process.start(func() {
		var problem *Problem
		defer func() {
			if value := recover(); value != nil {
				problem = exception(value)
			}
			made.settle(problem)
			inner.scope.cancel(cancelled("Its goroutine has ended"))
		}()
		problem = NewProblem("exception", "A goroutine has ended itself")
		value, err := run(inner)
		made.value, problem = value, nil
		if err != nil {
			problem = problemOf(err)
		}
	})
	return future
}

// Map runs a function for each item, at most limit at a time (0: all at once), and returns what they
// return, in order; or the first error, for which the others are cancelled.
func Map[I, O any](ctx Ctx, limit int, items []I, run func(Ctx, I) (O, error)) ([]O, error) {
	ctx, cancel := ctx.WithCancel()
	defer cancel()
	if limit <= 0 || limit > len(items) {
		limit = len(items)
	}
	values := make([]O, len(items))
	next := 0
	workers := make([]*Future[struct{}], limit)
	for i := range workers {
		workers[i] = Go(ctx, func(ctx Ctx) (struct{}, error) {
			for next < len(items) {
				at := next
				next++
				value, err := run(ctx, items[at])
				if err != nil {
					return struct{}{}, err
				}
				values[at] = value
			}
			return struct{}{}, nil
		})
	}
	_, err := All(workers...)
	if err != nil {
		return nil, err
	}
	return values, nil
}

func (t Target) String() string { return fmt.Sprintf("%d %d %s %s", t.Kind, t.ID, t.Run, t.Name) }
