package csitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Secrets are the secrets of a call, by name. They print as their names alone, with each verb of
// package fmt and as JSON.
type Secrets map[string]string

// Format implements [fmt.Formatter]: it writes the names.
func (s Secrets) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{%s}", strings.Join(s.names(), " "))
}

// MarshalJSON implements [json.Marshaler]: it returns the names.
func (s Secrets) MarshalJSON() ([]byte, error) { return json.Marshal(s.names()) }

func (s Secrets) names() []string { return slices.Sorted(maps.Keys(s)) }

// isSecret reports whether the specification declares a field as a secret.
func isSecret(field protoreflect.FieldDescriptor) bool {
	options, ok := field.Options().(*descriptorpb.FieldOptions)
	if !ok {
		return false
	}
	secret, ok := proto.GetExtension(options, csipb.E_CsiSecret).(bool)
	return ok && secret
}

// splitSecrets returns a copy of a request without its secrets, and the secrets.
func splitSecrets(req proto.Message) (proto.Message, Secrets) {
	rest := proto.Clone(req)
	var secrets Secrets
	m := rest.ProtoReflect()
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if isSecret(field) {
			secrets = Secrets(stringMap(value))
			m.Clear(field)
		}
		return true
	})
	return rest, secrets
}

// stringMap returns the map of a field of type map<string, string>.
func stringMap(value protoreflect.Value) map[string]string {
	all := map[string]string{}
	value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		all[key.String()] = value.String()
		return true
	})
	return all
}
