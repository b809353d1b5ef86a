// Package redact finds the secrets of CSI requests.
package redact

import (
	"encoding/json"
	"slices"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/volumekit/volumekit/internal/optionlist"
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
					c.secrets = append(c.secrets, optionSecrets(value.List().Get(i).String())...)
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

// sensitiveNames are parts of the names of mount options whose values are secrets.
var sensitiveNames = []string{"pass", "secret", "token", "cred", "key"}

func isSensitive(option string) bool {
	return slices.ContainsFunc(sensitiveNames, func(part string) bool { return strings.Contains(strings.ToLower(option), part) })
}

// optionSecrets returns the secrets in a mount flag such as "username=u,password=p": a value to the next comma, to the
// next one outside of quotes, and to the end of the flag, since a value may contain commas.
func optionSecrets(flag string) (secrets []string) {
	for _, option := range optionlist.Split(flag) {
		if name, value, _ := strings.Cut(option, "="); isSensitive(name) {
			secrets = append(secrets, strings.Trim(value, `"`))
		}
	}
	for rest := flag; rest != ""; {
		option, later, _ := strings.Cut(rest, ",")
		if name, value, _ := strings.Cut(option, "="); value != "" && isSensitive(name) {
			_, all, _ := strings.Cut(rest, "=")
			secrets = append(secrets, value, all)
		}
		rest = later
	}
	return secrets
}

// BareOption returns a mount flag to the name of its first secret: the value may contain commas, so that its end is
// not known.
func BareOption(flag string) string {
	for rest := flag; rest != ""; {
		option, later, _ := strings.Cut(rest, ",")
		if name, _, ok := strings.Cut(option, "="); ok && isSensitive(name) {
			return flag[:len(flag)-len(rest)] + name
		}
		rest = later
	}
	return flag
}

// Option returns a mount flag without its secrets, for errors.
func Option(flag string) string { return redaction.Text(flag, optionSecrets(flag)) }

// IsRedacted reports whether a mount flag has lost secrets.
func IsRedacted(flag string) bool { return strings.Contains(flag, redaction.Marker) }

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
