package wf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// Class says whether what failed happened, and whether trying again may help.
type Class uint8

const (
	Definite Class = iota
	Retryable
	Uncertain
)

func (c Class) String() string { return [...]string{"definite", "retryable", "uncertain"}[c] }

// Problem is the error of everything that a host answers, and what an entry fails with. An entry
// that returns another error fails with the kind `exception` and the error's text.
type Problem struct {
	Kind, Title string
	// Status is the HTTP status where there is one.
	Status int
	Detail string
	Class  Class
	// RetryAfter is 0 if it is not given.
	RetryAfter time.Duration
	// Data is an object, or nil.
	Data json.RawMessage

	// As received: an empty detail and a retry at once differ from none.
	detailed, retries bool
}

// NewProblem makes a problem that trying again does not solve. `kind` is a short name or a URI.
func NewProblem(kind, title string) *Problem { return &Problem{Kind: kind, Title: title} }

// Error is the title, and the detail if there is one.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}

// Is makes errors.Is(err, context.Canceled) and errors.Is(err, context.DeadlineExceeded) work.
func (p *Problem) Is(target error) bool {
	switch target {
	case context.Canceled:
		return p.Kind == "cancelled"
	case context.DeadlineExceeded:
		return p.Kind == "timeout" || p.Kind == "timed-out"
	}
	return false
}

// KindOf is the kind of the problem in an error, "" if there is none.
func KindOf(err error) string {
	var problem *Problem
	if errors.As(err, &problem) {
		return problem.Kind
	}
	return ""
}

// problemOf is the problem of any error.
func problemOf(err error) *Problem {
	if problem, ok := err.(*Problem); ok {
		return problem
	}
	var problem *Problem
	if errors.As(err, &problem) {
		wrapped := *problem
		wrapped.Detail = err.Error()
		return &wrapped
	}
	return NewProblem("exception", err.Error())
}

// exception is the problem of a panic; called by the deferred function that recovers it.
func exception(value any) *Problem {
	if of, ok := value.(unhandled); ok {
		return problemOf(of.err)
	}
	problem := NewProblem("exception", fmt.Sprint(value))
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var stack strings.Builder
	var at struct {
		Path string `json:"path"`
		Line int    `json:"line"`
	}
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if strings.HasPrefix(frame.Function, "runtime.") || strings.Contains(frame.Function, "/guests/go/wf.") {
			continue
		}
		if at.Path == "" {
			at.Path, at.Line = frame.File, frame.Line
			problem.Detail = fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
		fmt.Fprintf(&stack, "%s %s:%d\n", frame.Function, frame.File, frame.Line)
	}
	problem.Data, _ = json.Marshal(map[string]any{"at": at, "stack": stack.String()})
	return problem
}
