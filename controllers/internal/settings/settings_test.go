package settings_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/settings"
	"github.com/volumekit/volumekit/manager"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestNotNegative: the error names the controller, the first field below 0 and its value.
func TestNotNegative(t *testing.T) {
	require.NoError(t, settings.NotNegative("bind", settings.Of("Workers", 0), settings.Of("Timeout", time.Second)))
	err := settings.NotNegative("bind", settings.Of("Workers", 1), settings.Of("Timeout", -time.Second), settings.Of("Calls", -1))
	require.EqualError(t, err, "bind: Config.Timeout: Invalid value: \"-1s\": must be at least 0")
	require.ErrorAs(t, err, new(*field.Error))
}

// TestSetReceivers: receivers that are nil discard everything, and others stay.
func TestSetReceivers(t *testing.T) {
	var events func(api.Event)
	var metrics manager.Metrics
	var logger *slog.Logger
	settings.SetReceivers(&events, &metrics, &logger)
	events(api.Event{})
	metrics.Add("a", 1)
	metrics.Observe("a", time.Second)
	logger.Error("a")
	before, called := logger, false
	events = func(api.Event) { called = true }
	settings.SetReceivers(&events, &metrics, &logger)
	events(api.Event{})
	require.True(t, called)
	require.Same(t, before, logger)
}
