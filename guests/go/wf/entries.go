package wf

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Entries are a component's entry points by their names. Each is a function
//
//	func(ctx wf.Ctx, input I) (O, error)
//
// where the input, the output, or both may be left out; Doc adds a description.
type Entries map[string]any

// Documented is an entry with its description: see Doc.
type Documented struct {
	run  any
	text string
}

// Doc describes an entry.
func Doc(text string, run any) Documented { return Documented{run, text} }

type entry struct {
	run  reflect.Value
	text string
	in   reflect.Type
	out  reflect.Type
}

var (
	exported map[string]entry
	about    string
	ctxType  = reflect.TypeFor[Ctx]()
	errType  = reflect.TypeFor[error]()
)

// Export makes these the entries of the component. Call it once, in main; `text` describes the
// component. It panics if one of them is not such a function.
func Export(entries Entries, text ...string) {
	exported, about = map[string]entry{}, strings.Join(text, "\n")
	for name, run := range entries {
		exported[name] = entryOf(name, run)
	}
}

func entryOf(name string, run any) entry {
	var made entry
	if documented, ok := run.(Documented); ok {
		run, made.text = documented.run, documented.text
	}
	made.run = reflect.ValueOf(run)
	if made.run.Kind() != reflect.Func {
		panic(fmt.Sprintf("wf: the entry %s is no function", name))
	}
	of := made.run.Type()
	fits := of.NumIn() >= 1 && of.NumIn() <= 2 && of.In(0) == ctxType && of.NumOut() >= 1 && of.NumOut() <= 2 && of.Out(of.NumOut()-1) == errType
	if !fits {
		panic(fmt.Sprintf("wf: the entry %s is no func(wf.Ctx, input) (output, error), but %s", name, of))
	}
	if of.NumIn() == 2 {
		made.in = of.In(1)
	}
	if of.NumOut() == 2 {
		made.out = of.Out(0)
	}
	return made
}

// prepare reads the input.
func (e entry) prepare(ctx Ctx, input Payload) (func() (Payload, error), *Problem) {
	args := []reflect.Value{reflect.ValueOf(ctx)}
	if e.in != nil {
		value := reflect.New(e.in)
		if err := decode(input, value.Interface()); err != nil {
			return nil, &Problem{Kind: "bad-input", Title: "The input does not fit the entry", Detail: problemOf(err).Detail}
		}
		args = append(args, value.Elem())
	}
	return func() (Payload, error) {
		results := e.run.Call(args)
		if err, ok := results[len(results)-1].Interface().(error); ok {
			return null, err
		}
		if e.out == nil {
			return null, nil
		}
		return Encode(results[0].Interface())
	}, nil
}

// Start begins an entry on a host, as `init` of the contract does. For hosts: package wftest.
func Start(host Host, name string, input Payload) (*Running, *Problem) {
	entry, ok := exported[name]
	if !ok {
		return nil, &Problem{Kind: "unknown-entry", Title: "The component has no such entry", Detail: name}
	}
	p := newProcess(host)
	if problem := p.run(entry, input); problem != nil {
		return nil, problem
	}
	return &Running{p}, nil
}

// Running is a process on a host.
type Running struct{ process *process }

// Step is `step` of the contract.
func (r *Running) Step(events []Event) (Status, []Command) { return r.process.step(events) }

// Close ends its goroutines.
func (r *Running) Close() { r.process.close() }

// Describe is `describe` of the contract: the entries, with JSON Schemas of their types.
func Describe() string {
	entries := map[string]any{}
	for name, of := range exported {
		described := map[string]any{}
		if of.text != "" {
			described["description"] = of.text
		}
		if of.in != nil {
			described["input"] = schemaOf(of.in, nil)
		}
		if of.out != nil {
			described["output"] = schemaOf(of.out, nil)
		}
		entries[name] = described
	}
	all := map[string]any{"entries": entries}
	if about != "" {
		all["description"] = about
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}
