package connection

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/volumekit/volumekit/internal/oneline"
)

// tokensKey is the key of a volume context whose value has service account tokens.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// secretsOf returns the secrets of a request.
func secretsOf(request any) []string {
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

// optionSecrets returns the secrets in a mount flag such as "username=u,password=p". A value may contain
// commas, so that the rest of the flag is a secret, too.
func optionSecrets(flag string) (secrets []string) {
	for rest := flag; rest != ""; {
		option, later, _ := strings.Cut(rest, ",")
		name, value, _ := strings.Cut(option, "=")
		isPart := func(part string) bool { return strings.Contains(strings.ToLower(name), part) }
		if value != "" && slices.ContainsFunc(sensitiveNames, isPart) {
			_, all, _ := strings.Cut(rest, "=")
			secrets = append(secrets, value, all)
		}
		rest = later
	}
	return secrets
}

// StripOption returns a mount flag without its secrets, for errors.
func StripOption(flag string) string { return strip(flag, optionSecrets(flag)) }

// IsStripped reports whether a mount flag has lost secrets.
func IsStripped(flag string) bool { return strings.Contains(flag, stripped) }

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

// minLine is the length of the lines of a secret that are secrets themselves: programs print one line
// of a key.
const minLine = 8

// forms returns the forms in which messages contain a secret.
func forms(secret string) []string {
	quoted := strconv.Quote(secret)
	encoded, _ := json.Marshal(secret) // a string is never refused
	all := []string{
		secret, strings.TrimSpace(secret), oneline.Of(secret),
		quoted[1 : len(quoted)-1], string(encoded[1 : len(encoded)-1]),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="),
		strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(secret)), "="),
		url.QueryEscape(secret), url.PathEscape(secret),
	}
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= minLine {
			all = append(all, line)
		}
	}
	return all
}

// maxSearch bounds the work of strip: the length of the text times that of all forms.
const maxSearch = 1 << 28

// strip returns the text with [stripped] in place of each run of secrets. A text that is too long for
// a search for all secrets is replaced as a whole.
func strip(text string, secrets []string) string {
	wanted := map[string]bool{}
	total := 0
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			if strings.TrimSpace(form) == "" || len(form) > len(text) || wanted[form] {
				continue
			}
			wanted[form] = true
			if total += len(form); len(text)*total > maxSearch {
				return stripped
			}
		}
	}
	if len(wanted) == 0 {
		return text
	}
	return replaceMarked(text, markAll(text, wanted))
}

// markAll marks the bytes of the text that belong to one of the wanted texts. Occurrences may overlap.
func markAll(text string, wanted map[string]bool) []bool {
	marked := make([]bool, len(text))
	for form := range wanted {
		end := 0 // of the bytes that this form has marked
		for from := 0; ; from++ {
			at := strings.Index(text[from:], form)
			if at < 0 {
				break
			}
			from += at
			for i := max(from, end); i < from+len(form); i++ {
				marked[i] = true
			}
			end = from + len(form)
		}
	}
	return marked
}

func replaceMarked(text string, marked []bool) string {
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !marked[i]:
			out.WriteByte(text[i])
		case i == 0 || !marked[i-1]:
			out.WriteString(stripped)
		}
	}
	return out.String()
}
