package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
)

// madeUpToken is the token for pods that request one of their service account: there is no
// cluster that issues tokens.
const madeUpToken = "made-up-by-fileagent.no-server-accepts-it"

// tokens has one token for all pods: the content of a file, or a made-up one. It is a
// content.TokenGetter.
type tokens struct{ file string }

// GetServiceAccountToken implements content.TokenGetter. It reads the file each time, since
// the file's owner renews the token.
func (t tokens) GetServiceAccountToken(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) ([]byte, error) {
	if t.file == "" {
		return []byte(madeUpToken), nil
	}
	f, err := os.Open(t.file)
	if err != nil {
		return nil, fmt.Errorf("-token-file: %w", err)
	}
	const limit = 64 << 10
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("-token-file: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, fmt.Errorf("-token-file %s: empty", t.file)
	}
	return text, nil
}

// check reports a missing file at the start of the program.
func (t tokens) check() error {
	_, err := t.GetServiceAccountToken(context.Background(), nil, nil)
	return err
}
