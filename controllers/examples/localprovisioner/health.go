package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/volumekit/volumekit/util/fsusage"
)

// healthTime is the time in which the file systems have to answer.
const healthTime = 5 * time.Second

// health answers 200 if the file system of each directory of -claims answers. It makes no call to the
// API server: an outage there is no reason to restart the program.
func (p *program) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), healthTime)
	defer cancel()
	for _, dir := range p.claims {
		if _, err := fsusage.Stat(ctx, dir); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	_, _ = fmt.Fprintln(w, "ok")
}
