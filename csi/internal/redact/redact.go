// Package redact finds the secrets of CSI requests.
package redact

import (
	"encoding/json"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/volumekit/volumekit/internal/redaction"
)

// tokensKey is the key of a volume context whose value has service account tokens.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// Secrets returns the secrets of a request: the fields with the option csi_secret, the service account tokens, and the
// values of mount options whose names look secret, such as password.
func Secrets(request any) []string {
	message, ok := request.(proto.Message)
	if !ok || message == nil { // the registration API has no secrets
		return nil
	}
	var c collector
	c.addMessage(message.ProtoReflect())
	return c.secrets
}

// A collector collects the secrets of a message.
type collector struct{ secrets []string }

func (c *collector) addMessage(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		isSecret, _ := proto.GetExtension(field.Options(), csipb.E_CsiSecret).(bool)
		switch {
		case field.IsMap():
			value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				c.addValue(field.MapValue(), value, isSecret)
				if key.String() == tokensKey && !isSecret {
					c.addTokens(value.String())
				}
				return true
			})
		case field.IsList():
			for i := range value.List().Len() {
				c.addValue(field, value.List().Get(i), isSecret)
				if field.Name() == mountFlags {
					c.secrets = append(c.secrets, redaction.OptionSecrets(value.List().Get(i).String())...)
				}
			}
		default:
			c.addValue(field, value, isSecret)
		}
		return true
	})
}

func (c *collector) addValue(field protoreflect.FieldDescriptor, value protoreflect.Value, isSecret bool) {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		c.addMessage(value.Message())
	case protoreflect.StringKind:
		if isSecret {
			c.secrets = append(c.secrets, value.String())
		}
	case protoreflect.BytesKind:
		if isSecret {
			c.secrets = append(c.secrets, string(value.Bytes()))
		}
	}
}

// mountFlags is a field that may have secrets by the specification, without the option csi_secret.
const mountFlags = "mount_flags"

// addTokens adds the tokens of a JSON object from audience to token, and the text of the object.
func (c *collector) addTokens(text string) {
	c.secrets = append(c.secrets, text)
	var tokens map[string]struct {
		Token string `json:"token"`
	}
	if json.Unmarshal([]byte(text), &tokens) != nil {
		return
	}
	for _, t := range tokens {
		c.secrets = append(c.secrets, t.Token)
	}
}
