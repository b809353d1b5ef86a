// Package telemetry has the parts that the reports of all controllers share: the text of events, and the duration of
// operations.
package telemetry

import (
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
	"github.com/volumekit/volumekit/manager"
)

// Text returns a text with parts of other programs as one short line of valid UTF-8.
func Text(message string) string {
	return brief.Text(oneline.Of(strings.ToValidUTF8(message, "\uFFFD")))
}

// Duration measures an operation for a plugin, with the labels of kube-controller-manager.
func Duration(metrics manager.Metrics, operation, plugin string, took time.Duration, isSuccess bool) {
	status := "success"
	if !isSuccess {
		status = "fail-unknown"
	}
	metrics.Observe(manager.OperationDuration, took, manager.Label{Name: "volume_plugin", Value: plugin},
		manager.Label{Name: "operation_name", Value: operation}, manager.Label{Name: "status", Value: status},
		manager.Label{Name: "migrated", Value: "false"})
}
