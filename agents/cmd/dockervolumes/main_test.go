package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/docker"
	"github.com/volumekit/volumekit/internal/testbed"
)

// TestCommandLines: the exit status is 2 for a wrong command line, and 1 for one that cannot work on this machine.
func TestCommandLines(t *testing.T) {
	testbed.RequireCommandLines(t, run,
		testbed.CommandLine{Args: "-help", Prints: "-server"},
		testbed.CommandLine{Args: "x", Status: 2, Prints: "x"},
		testbed.CommandLine{Args: "-server=s", Status: 2, Prints: "require each other"},
		testbed.CommandLine{Args: "-path=/p", Status: 2, Prints: "require each other"},
		testbed.CommandLine{Args: "-server=s -path=/p -dir=/d", Status: 2, Prints: "or in -dir"},
		testbed.CommandLine{Args: "-shares=/s", Status: 2, Prints: "-shares requires -dir"},
		testbed.CommandLine{Args: "-size=1Gi", Status: 2, Prints: "-size requires"},
		testbed.CommandLine{Args: "-size=0", Status: 2, Prints: "must be positive"},
		testbed.CommandLine{Args: "-size=1x", Status: 2, Prints: "1x"},
		testbed.CommandLine{Args: "-size=1e99999999", Status: 2, Prints: "-size"},
		testbed.CommandLine{Args: "-dir=/d -scope=global", Status: 2, Prints: "one machine"},
		testbed.CommandLine{Args: "-state=/proc/missing", Status: 1, Prints: "/proc/missing"})
}

// TestSize: the size of volumes is a quantity, and the library's default without the flag.
func TestSize(t *testing.T) {
	for text, want := range map[string]size{"": 0, "10Gi": 10 << 30, "500M": 500e6} {
		args := []string{"-dir=/volumes"}
		if text != "" {
			args = append(args, "-size="+text)
		}
		o, err := parse(args, io.Discard)
		require.NoError(t, err)
		require.Equal(t, want, o.size)
	}
}

// TestPlugin: the size, the scope and what happens to the directory of a removed volume.
func TestPlugin(t *testing.T) {
	for args, want := range map[string]string{
		"": "", "-server=s -path=/p": "delete", "-server=s -path=/p -scope=global": "retain", "-dir=/d": "",
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		require.NoError(t, err)
		c := docker.Config{Scope: docker.Scope(o.scope)}
		o.addPlugin(&c)
		require.Equal(t, want, c.Parameters["onDelete"], args)
	}
}

// TestInvalidConfiguration: a value that the driver refuses ends the program at its start.
func TestInvalidConfiguration(t *testing.T) {
	dir := testbed.Dir(t)
	own := " -state=" + dir + "/state -socket=" + dir + "/s"
	for args, prints := range map[string]string{
		"-scope=machine":                      "scope",
		"-name=a/b":                           "name",
		"-server=s -path=p":                   "path",
		"-dir=" + dir + "/missing":            dir + "/missing",
		"-dir=" + dir + " -shares=/proc/none": "/proc/none",
	} {
		testbed.RequireCommandLines(t, run, testbed.CommandLine{Args: args + own, Status: 1, Prints: prints})
	}
}

// managedPlugin is what the tests read of config.json.
type managedPlugin struct {
	Entrypoint []string
	Interface  struct {
		Types  []string
		Socket string
	}
	PropagatedMount string
	Linux           struct{ Capabilities []string }
}

func readConfig(t *testing.T) (c managedPlugin) {
	t.Helper()
	text, err := os.ReadFile("config.json")
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	require.NoError(t, decoder.Decode(&c))
	return c
}

// TestManagedPlugin: config.json starts the program with the socket where the daemon looks for it, and the mounts where
// the daemon shows them to its containers.
func TestManagedPlugin(t *testing.T) {
	c := readConfig(t)
	require.Equal(t, "/"+programName, c.Entrypoint[0])
	o, err := parse(c.Entrypoint[1:], io.Discard)
	require.NoError(t, err)
	require.Equal(t, c.PropagatedMount, o.state)
	require.Equal(t, docker.SocketDir+"/"+c.Interface.Socket, o.socket)
	named, err := parse(append(c.Entrypoint[1:], "-name=other"), io.Discard)
	require.NoError(t, err)
	require.Equal(t, o.socket, named.socket, "the daemon looks there for each name")
	require.Equal(t, []string{"docker.volumedriver/1.0"}, c.Interface.Types)
}

// unitValue returns the value of a key in the unit of systemd.
func unitValue(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile("dockervolumes.service")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(string(text))
	require.NotNil(t, found, key)
	return found[1]
}

// TestService: the unit starts the program, and no option of it hides the mounts from Docker.
func TestService(t *testing.T) {
	require.Equal(t, "/usr/local/sbin/"+programName+" $FLAGS", unitValue(t, "ExecStart"))
	require.Equal(t, "docker.service", unitValue(t, "Before"))
	text, err := os.ReadFile("dockervolumes.service")
	require.NoError(t, err)
	keys := regexp.MustCompile(`(?m)^[A-Za-z]+=`).FindAllString(string(text), -1)
	require.Subset(t, strings.Fields("Description= Documentation= After= Wants= Before= StartLimitIntervalSec= Type= EnvironmentFile= ExecStart= "+
		"Restart= RestartSec= RestartPreventExitStatus= TimeoutStopSec= CapabilityBoundingSet= NoNewPrivileges= WantedBy="), keys, "others may give it a mount namespace")
}
