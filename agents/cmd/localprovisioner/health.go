package main

import (
	"context"
	"time"

	"github.com/volumekit/volumekit/util/fsusage"
)

// healthTime is the time in which the file systems have to answer.
const healthTime = 5 * time.Second

// health returns an error unless the file system of each directory of -claims answers. It makes no call to the
// API server: an outage there is no reason to restart the program.
func (p *program) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	for _, dir := range p.claims {
		if _, err := fsusage.Stat(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}
