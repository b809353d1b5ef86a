package redaction

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBoundedWork: many long secrets and a long text do not occupy the process.
func TestBoundedWork(t *testing.T) {
	text, secret := strings.Repeat("a", 1<<20), strings.Repeat("a", 1<<19)
	require.Equal(t, Marker, Text(text, []string{secret}))
	var many []string
	for i := range 100_000 {
		many = append(many, fmt.Sprint("secret-", i))
	}
	require.Equal(t, Marker, Text(text, many))
	require.Equal(t, "no secret-...", Text("no secret-...", many))
	require.Equal(t, "no "+Marker+".", Text("no secret-99999.", many))
}

// TestForms: quotes within quotes, and lines of a secret.
func TestForms(t *testing.T) {
	key := "{\n  \"type\": \"service_account\",\n  \"private_key_id\": \"0123456789abcdef\",\n  \"a\\\\b\": 1\n}"
	for _, secret := range []string{key, "pa<ss&wo>rd", "tok\x01en-of", "p\"a\\s\ns\xffö-and", "plain-secret"} {
		for _, line := range append(strings.Split(secret, "\n"), secret) {
			if line = strings.TrimSpace(line); len(line) < minLine {
				continue
			}
			encode := func(text string, html bool) string { return `"` + inJSON(text, html) + `"` }
			forms := []string{
				line, strconv.Quote(line), strconv.Quote(strconv.Quote(line)), fmt.Sprintf("%+q", line), strconv.Quote(fmt.Sprintf("%+q", line)),
				encode(line, true), encode(line, false), strconv.Quote(encode(line, true)), encode(strconv.Quote(line), true),
				strconv.Quote(strconv.Quote(encode(line, false))), fmt.Sprintf("%x", secret),
			}
			for _, form := range forms {
				got := Text("a "+form+" b", []string{secret})
				require.Regexp(t, `^a [\\"]*\*\*\*stripped\*\*\*[\\"]* b$`, got, form)
			}
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("login with hunter2 failed", "hunter2")
	f.Add("ababa", "aba")
	f.Add("a\nb", "b\n")
	f.Fuzz(func(t *testing.T, text, secret string) {
		got := Text(text, []string{secret})
		if strings.TrimSpace(secret) == "" || strings.Contains(secret, "*") || strings.Contains(Marker, secret) {
			return // the marker may complete a text to such a secret
		}
		require.NotContains(t, got, secret)
	})
}

func FuzzParts(f *testing.F) {
	f.Add("login with hunter2-and-more failed", "hunter2-and-more", 9)
	f.Add("ababababab", "abababababab", 8)
	f.Fuzz(func(t *testing.T, text, secret string, n int) {
		if len(secret) <= shortestPart || strings.Contains(secret, "*") || strings.TrimSpace(secret) == "" {
			return
		}
		n = shortestPart + max(n, -n, 0)%(len(secret)-shortestPart)
		got := Parts(text+secret[:n]+" "+secret[len(secret)-n:], []string{secret})
		for _, part := range []string{secret, secret[:n], secret[len(secret)-n:]} {
			if !strings.Contains(Marker, part) {
				require.NotContains(t, got, part)
			}
		}
	})
}
