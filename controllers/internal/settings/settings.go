// Package settings has the parts that the configurations of all controllers share: numbers that must not be
// negative, and receivers that are optional.
package settings

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/manager"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Number is a field of a configuration with its value.
type Number struct {
	name  string
	value any
	isOK  bool
}

// Of returns the number of a field.
func Of[N int | time.Duration](name string, value N) Number {
	n := Number{name, value, value >= 0}
	if d, ok := n.value.(time.Duration); ok {
		n.value = d.String() // versions of Kubernetes print a duration itself in different ways
	}
	return n
}

// NotNegative returns an error of a controller that wraps a *field.Error for the first number below 0.
func NotNegative(controller string, numbers ...Number) error {
	for _, n := range numbers {
		if !n.isOK {
			return fmt.Errorf("%s: %w", controller, field.Invalid(field.NewPath("Config", n.name), n.value, "must be at least 0"))
		}
	}
	return nil
}

// SetReceivers sets the receivers that are nil to ones that discard everything.
func SetReceivers(events *func(api.Event), metrics *manager.Metrics, logger **slog.Logger) {
	if *events == nil {
		*events = func(api.Event) {}
	}
	if *metrics == nil {
		*metrics = noMetrics{}
	}
	if *logger == nil {
		*logger = slog.New(slog.DiscardHandler)
	}
}

type noMetrics struct{}

func (noMetrics) Observe(string, time.Duration, ...manager.Label) {}
func (noMetrics) Add(string, int, ...manager.Label)               {}
