// Package redaction removes secrets from texts, in each form in which messages contain them.
package redaction

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
)

// Marker replaces secrets, as in the logs of other programs.
const Marker = "***stripped***"

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

// Message returns a text as one short line of valid UTF-8 without secrets.
func Message(text string, secrets []string) string {
	line := oneline.Of(strings.ToValidUTF8(Parts(text, secrets), "?"))
	return brief.Text(Parts(line, secrets)) // a line break of a secret can have become a blank
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
