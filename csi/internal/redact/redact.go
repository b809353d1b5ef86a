// Package redact removes the secrets of CSI requests from texts, in each form in which messages contain them.
package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/volumekit/volumekit/internal/oneline"
	"github.com/volumekit/volumekit/internal/optionlist"
)

// tokensKey is the key of a volume context whose value has service account tokens.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// Marker replaces secrets, as in the logs of other programs.
const Marker = "***stripped***"

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
func Option(flag string) string { return Text(flag, optionSecrets(flag)) }

// IsRedacted reports whether a mount flag has lost secrets.
func IsRedacted(flag string) bool { return strings.Contains(flag, Marker) }

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

// deepestQuote is the depth of quotes within quotes: an error quotes the text of a program, which quotes its input.
const deepestQuote = 3

// forms returns the forms in which messages contain a secret, or one of its lines.
func forms(secret string) (all []string) {
	all = []string{
		oneline.Of(secret),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="),
		strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(secret)), "="),
		url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret)),
	}
	raw := []string{secret, strings.TrimSpace(secret)}
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= minLine {
			raw = append(raw, line)
		}
	}
	for _, text := range raw {
		all = append(all, quotedForms(text)...)
	}
	return all
}

// quotedForms returns a text as it stands between quotes of each kind, also within each other; the text itself first.
func quotedForms(text string) []string {
	all := []string{text}
	known := map[string]bool{text: true}
	for begin, depth := 0, 0; depth < deepestQuote; depth++ {
		end := len(all)
		for ; begin < end; begin++ {
			inner := all[begin]
			for _, form := range []string{escaped(strconv.Quote(inner)), escaped(strconv.QuoteToASCII(inner)), inJSON(inner, true), inJSON(inner, false)} {
				if !known[form] {
					known[form] = true
					all = append(all, form)
				}
			}
		}
	}
	return all
}

// escaped returns the text between the quotes.
func escaped(quoted string) string { return quoted[1 : len(quoted)-1] }

// inJSON returns a text as it is in JSON, with or without an escape of the characters of HTML.
func inJSON(text string, html bool) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(html)
	_ = encoder.Encode(text) // a string is never refused
	return escaped(strings.TrimSuffix(out.String(), "\n"))
}

// maxSearch bounds the work: the length of the text times that of all forms.
const maxSearch = 1 << 28

// Text returns the text with [Marker] in place of each run of secrets. A text that is too long for a search for all
// secrets is replaced as a whole.
func Text(text string, secrets []string) string {
	return replaceAll(text, secrets, func(marked []bool, form string) { markWhole(marked, text, form) }, len(text))
}

// shortestPart is the length of the beginning and of the end of a secret that Parts hides.
const shortestPart = 8

// Parts is like [Text], and replaces the beginning and the end of secrets, too: errors shorten long values.
func Parts(text string, secrets []string) string {
	return replaceAll(text, secrets, func(marked []bool, form string) {
		markWhole(marked, text, form)
		markParts(marked, text, form)
	}, math.MaxInt)
}

// replaceAll replaces what mark marks for the forms of secrets that are not longer than longest.
func replaceAll(text string, secrets []string, mark func(marked []bool, form string), longest int) string {
	wanted := map[string]bool{}
	total := 0
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			if strings.TrimSpace(form) == "" || len(form) > longest || wanted[form] {
				continue
			}
			wanted[form] = true
			if total += min(len(form), len(text)); len(text)*total > maxSearch {
				return Marker
			}
		}
	}
	if len(wanted) == 0 {
		return text
	}
	marked := make([]bool, len(text))
	for form := range wanted {
		mark(marked, form)
	}
	return replaceMarked(text, marked)
}

// markWhole marks the bytes of the text that belong to a form. Occurrences may overlap.
func markWhole(marked []bool, text, form string) {
	end := 0 // of the marked bytes
	for from := 0; ; from++ {
		at := strings.Index(text[from:], form)
		if at < 0 {
			return
		}
		from += at
		for i := max(from, end); i < from+len(form); i++ {
			marked[i] = true
		}
		end = from + len(form)
	}
}

// markParts marks the beginnings and the ends of a form that have at least shortestPart bytes.
func markParts(marked []bool, text, form string) {
	if len(form) <= shortestPart {
		return
	}
	for from := 0; ; from++ {
		at := strings.Index(text[from:], form[:shortestPart])
		if at < 0 {
			break
		}
		from += at
		for i := 0; i < len(form) && from+i < len(text) && text[from+i] == form[i]; i++ {
			marked[from+i] = true
		}
	}
	last := form[len(form)-shortestPart:]
	for from := 0; ; from++ {
		at := strings.Index(text[from:], last)
		if at < 0 {
			break
		}
		from += at
		for i := range len(form) {
			if at := from + shortestPart - 1 - i; at < 0 || text[at] != form[len(form)-1-i] {
				break
			}
			marked[from+shortestPart-1-i] = true
		}
	}
}

func replaceMarked(text string, marked []bool) string {
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !marked[i]:
			out.WriteByte(text[i])
		case i == 0 || !marked[i-1]:
			out.WriteString(Marker)
		}
	}
	return out.String()
}
