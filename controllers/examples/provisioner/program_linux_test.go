package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/demonstration/demonstrationtest"
	"github.com/volumekit/volumekit/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m, func() int { return cli.Start(program.Run) }) }

// The output has X for the names of the volume and the pod. Other goroutines print the events.
const (
	printedSteps = `claim data is bound to pvc-X
pod web has the volume at /node/pods/X/volumes/kubernetes.io~local-volume/pvc-X
/disks/pvc-X/greeting: hello
pod web is deleted, the volume is unmounted
claim data is deleted
pvc-X is deleted, directories left: 0
`
	printedEvents = `event Provisioning: example.com/directories provisions a volume for claim default/data
event ProvisioningSucceeded: provisioned volume pvc-X
`
)

var uid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func requirePrinted(t *testing.T, out string) {
	t.Helper()
	var steps, events string
	for line := range strings.Lines(uid.ReplaceAllString(out, "X")) {
		if strings.HasPrefix(line, "event ") {
			events += line
		} else {
			steps += line
		}
	}
	require.Equal(t, printedSteps, steps)
	require.Equal(t, printedEvents, events)
}

var tested = demonstrationtest.Program{Program: program, RequirePrinted: requirePrinted, HelpSays: "claim"}

func TestOnRealKernel(t *testing.T)     { tested.TestOnRealKernel(t) }
func TestWithoutNamespace(t *testing.T) { tested.TestWithoutNamespace(t) }
func TestOutputFails(t *testing.T)      { tested.TestOutputFails(t) }
func TestFlags(t *testing.T)            { tested.TestFlags(t) }
