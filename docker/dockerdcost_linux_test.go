package docker

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/dockerserver"
	"github.com/volumekit/volumekit/internal/testbed"
)

// TestDockerCosts logs the time from the start to the exit of a container with a volume of this driver, and of one with a
// volume of Docker's own, the memory of this driver, and the time of many containers at once. See "make bench-docker".
func TestDockerCosts(t *testing.T) {
	if !testbed.Long() {
		t.Skip("it measures for minutes: VOLUMEKIT_LONG=1")
	}
	if !dockerserver.Isolate(t) {
		return
	}
	const rounds, containers = 200, 100
	m := newMachine(t)
	m.Docker("volume", "create", "own")
	m.create("data")
	run := func(flags ...string) time.Duration {
		start := time.Now()
		m.Docker(command("true", flags...)...)
		return time.Since(start)
	}
	times := map[string][]time.Duration{}
	for i := range rounds + 2 {
		for _, volume := range []string{"own", "data", ""} {
			var flags []string
			if volume != "" {
				flags = []string{"-v", volume + ":/data"}
			}
			if took := run(flags...); i >= 2 {
				times[volume] = append(times[volume], took)
			}
		}
	}
	for _, all := range times {
		slices.Sort(all)
	}
	at := func(volume string, percent int) float64 {
		return times[volume][(rounds-1)*percent/100].Seconds() * 1000
	}
	for _, percent := range []int{50, 99} {
		t.Logf("start to exit, p%d of %d: %.0f ms with this driver, %.0f ms with driver local: ratio %.3f; %.0f ms without a volume",
			percent, rounds, at("data", percent), at("own", percent), at("data", percent)/at("own", percent), at("", percent))
	}

	for _, volume := range []string{"own", "data"} {
		start := time.Now()
		var all sync.WaitGroup
		errs := make(chan error, containers)
		for i := range containers {
			all.Go(func() {
				_, err := m.TryDocker("run", "-d", "--network=none", fmt.Sprintf("--name=%s-%d", volume, i), "-v", volume+":/data", dockerserver.Image)
				errs <- err
			})
		}
		all.Wait()
		for range containers {
			require.NoError(t, <-errs)
		}
		t.Logf("%d containers on one volume at once: %.1f s with volume %s", containers, time.Since(start).Seconds(), volume)
		if volume == "data" {
			m.users(containers, "data")
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.driver.Process.Pid))
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
					t.Logf("memory of the driver, a test binary: %s", strings.Join(strings.Fields(line), " "))
				}
			}
		}
		ids := strings.Fields(m.Docker("ps", "-q"))
		m.Docker(append([]string{"rm", "-f"}, ids...)...)
	}
	m.users(0, "data")
}
