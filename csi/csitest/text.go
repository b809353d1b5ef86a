package csitest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Text returns the fields of a message that are set in one line, in the order of their numbers, by
// their names in the specification. The text of equal messages is equal. Of secrets it contains the
// names.
//
//	volume_id=v volume_capability={mount={fs_type=ext4} access_mode={mode=SINGLE_NODE_WRITER}}
func Text(m proto.Message) string {
	if m == nil {
		return ""
	}
	return messageText(m.ProtoReflect())
}

func messageText(m protoreflect.Message) string {
	var parts []string
	fields := m.Descriptor().Fields()
	order := make([]protoreflect.FieldDescriptor, fields.Len())
	for i := range order {
		order[i] = fields.Get(i)
	}
	slices.SortFunc(order, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number() - b.Number()) })
	for _, field := range order {
		if m.Has(field) {
			parts = append(parts, string(field.Name())+"="+fieldText(field, m.Get(field)))
		}
	}
	return strings.Join(parts, " ")
}

func fieldText(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	switch {
	case isSecret(field):
		return fmt.Sprint(Secrets(stringMap(value)))
	case field.IsMap():
		return mapText(value)
	case field.IsList():
		var parts []string
		for i := range value.List().Len() {
			parts = append(parts, valueText(field, value.List().Get(i)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return valueText(field, value)
}

func mapText(value protoreflect.Value) string {
	var parts []string
	all := stringMap(value)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, word(key)+"="+word(all[key]))
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func valueText(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return "{" + messageText(value.Message()) + "}"
	case protoreflect.EnumKind:
		if known := field.Enum().Values().ByNumber(value.Enum()); known != nil {
			return string(known.Name())
		}
		return strconv.Itoa(int(value.Enum()))
	case protoreflect.StringKind:
		return word(value.String())
	}
	return fmt.Sprint(value.Interface())
}

// word returns a string as it is if it is one plain word, and quoted otherwise.
func word(s string) string {
	isPlain := func(r rune) bool {
		return r < 0x7f && r > ' ' && !strings.ContainsRune("\"'={}[]\\", r)
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !isPlain(r) }) {
		return strconv.Quote(s)
	}
	return s
}
