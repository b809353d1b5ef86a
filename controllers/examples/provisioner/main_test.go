package main

import (
	"bytes"
	"log"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRun: the output names the steps, and no directory is left.
func TestRun(t *testing.T) {
	root := t.TempDir()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), log.New(&out, "", 0), root))
	uid := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	lines := slices.Sorted(strings.Lines(uid.ReplaceAllString(out.String(), "X"))) // the events come at any time
	require.Equal(t, []string{
		"claim data is bound to pvc-X\n",
		"event Provisioning: example.com/directories provisions a volume for claim default/data\n",
		"event ProvisioningSucceeded: provisioned volume pvc-X\n",
		"pvc-X is deleted with the claim\n",
	}, lines)
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, left)
}
