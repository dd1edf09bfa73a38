package wf

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

var anyTypes = []reflect.Type{
	reflect.TypeFor[Payload](), reflect.TypeFor[Bytes](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[struct{}](),
}

// schemaOf is the JSON Schema of a type, as encoding/json reads and writes it. A field's tag
// `doc:"…"` is its description. Nothing is required, as encoding/json requires nothing.
func schemaOf(of reflect.Type, within []reflect.Type) map[string]any {
	for _, one := range append(anyTypes, within...) {
		if of == one {
			return map[string]any{}
		}
	}
	within = append(within, of)
	switch of {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.Number]():
		return map[string]any{"type": "number"}
	}
	if of.Implements(reflect.TypeFor[json.Unmarshaler]()) || reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return map[string]any{}
	}
	switch of.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice, reflect.Array:
		if of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": []string{"array", "null"}, "items": schemaOf(of.Elem(), within)}
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": schemaOf(of.Elem(), within)}
	case reflect.Pointer:
		return map[string]any{"anyOf": []any{schemaOf(of.Elem(), within), map[string]any{"type": "null"}}}
	case reflect.Struct:
		properties := map[string]any{}
		fieldsOf(of, within, properties)
		return map[string]any{"type": "object", "properties": properties}
	}
	return map[string]any{}
}

func fieldsOf(of reflect.Type, within []reflect.Type, properties map[string]any) {
	for _, field := range reflect.VisibleFields(of) {
		if !field.IsExported() || field.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		schema := schemaOf(field.Type, within)
		if doc := field.Tag.Get("doc"); doc != "" {
			schema["description"] = doc
		}
		properties[name] = schema
	}
}
