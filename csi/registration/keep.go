package registration

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/volumekit/volumekit/util/ctxend"
)

// Keep calls [Serve] until ctx ends. An error, such as a refusal by the node's agent or a missing
// directory, goes to the Logger, and Keep calls Serve again after a pause of a second.
func Keep(ctx context.Context, config ServerConfig) {
	logger := cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	for ctx.Err() == nil {
		if err := Serve(ctx, config); err != nil {
			logger.Warn("registration of a driver failed", "driver", config.Driver, "error", err)
			_ = ctxend.Sleep(ctx, askPause) // the end of ctx ends the loop
		}
	}
}
