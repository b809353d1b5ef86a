package driver

import (
	"strings"

	"github.com/volumekit/volumekit/csi/internal/redact"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
)

// messageOf returns the text of an error for a status and a log: one short line without the secrets of the request.
func messageOf(err error, secrets []string) string {
	text := oneline.Of(strings.ToValidUTF8(redact.Parts(err.Error(), secrets), "?"))
	return brief.Text(redact.Parts(text, secrets)) // a line break of a secret can have become a blank
}
