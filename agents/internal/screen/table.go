package screen

import (
	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/manager"
	"k8s.io/apimachinery/pkg/types"
)

// ReadOnly marks a volume that containers get read-only.
const ReadOnly = ", ro"

// table returns a row for each volume of a pod.
func table(state manager.State, names *names) (rows []row) {
	add := func(pod types.UID, name, plugin, says string, err error) {
		isFine := err == nil && (says == mounted || says == mounted+ReadOnly)
		if err != nil {
			says += ": " + err.Error()
		}
		rows = append(rows, row{[columns]string{cli.OneLine(names.name(pod)), cli.OneLine(name), plugin, cli.OneLine(says)}, isFine})
	}
	for _, v := range state.Volumes {
		for _, pod := range podsOf(v) {
			says := pod.Phase()
			if pod.ReadOnly {
				says += ReadOnly
			}
			add(pod.Pod, pod.Name, v.Plugin, says, cause(v, pod))
		}
	}
	for _, f := range state.Failed {
		add(f.Pod, f.Name, "", "cannot be planned", f.Err)
	}
	for _, left := range state.Leftovers {
		add(left.Pod, left.Path, left.Plugin, "left alone", left.Err)
	}
	return rows
}
