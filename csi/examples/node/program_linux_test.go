package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/demonstration/demonstrationtest"
	"github.com/volumekit/volumekit/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m, func() int { return cli.Start(program.Run) }) }

const printed = `driver local.csi.example.com is registered
volume ID is created
pod web has the volume at /node/pods/pod-1/volumes/kubernetes.io~csi/pvc-1/mount
/claims/pvc-1/greeting: hello
pod web is deleted, the volume is unpublished
the volume is deleted, directories left: 0
`

// requirePrinted requires the output, with ID for the ID of the volume.
func requirePrinted(t *testing.T, out string) {
	t.Helper()
	_, rest, _ := strings.Cut(out, "\nvolume ")
	id, _, _ := strings.Cut(rest, " ")
	require.NotEmpty(t, id, out)
	require.Equal(t, printed, strings.ReplaceAll(out, "volume "+id+" is", "volume ID is"))
}

var tested = demonstrationtest.Program{Program: program, RequirePrinted: requirePrinted, HelpSays: "driver"}

func TestOnRealKernel(t *testing.T)     { tested.TestOnRealKernel(t) }
func TestWithoutNamespace(t *testing.T) { tested.TestWithoutNamespace(t) }
func TestOutputFails(t *testing.T)      { tested.TestOutputFails(t) }
func TestFlags(t *testing.T)            { tested.TestFlags(t) }
