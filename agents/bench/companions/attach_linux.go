package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// attachPods measures how the volumes of pods are attached, and detached once the pods are gone.
func attachPods(ctx context.Context, c *cluster) error {
	if err := c.createVolumes(ctx); err != nil {
		return err
	}
	t, err := c.start(c.subject.attach, c.subject.attacher)
	return c.with(ctx, t, err, func(t *team) error {
		return c.attachAndDetach(ctx, t, step{request: "POST pods", do: c.createPod, events: true}, step{request: "DELETE pods", do: c.deletePod})
	})
}

// attachByAttacher measures how the companions alone attach and detach the volumes of VolumeAttachments.
func attachByAttacher(ctx context.Context, c *cluster) error {
	if err := c.createVolumes(ctx); err != nil {
		return err
	}
	t, err := c.start("", c.subject.attacher)
	return c.with(ctx, t, err, func(t *team) error {
		return c.attachAndDetach(ctx, t, step{request: "POST volumeattachments", do: c.createAttachment}, step{request: "DELETE volumeattachments", do: c.deleteAttachment})
	})
}

// attachAndDetach measures both.
func (c *cluster) attachAndDetach(ctx context.Context, t *team, attach, detach step) error {
	p, err := c.phase(ctx, t, attach, func(ctx context.Context) error { return c.awaitAttached(ctx, c.volumes) })
	if err != nil {
		return err
	}
	c.print("attach", p)
	if p, err = c.phase(ctx, t, detach, c.awaitDetached); err != nil {
		return err
	}
	c.print("detach", p)
	return nil
}

// provisionVolumes measures how volumes are created for claims.
func provisionVolumes(ctx context.Context, c *cluster) error {
	program := c.subject.provisioner
	if program == "" {
		program = c.subject.attacher
	}
	t, err := c.start("", program)
	return c.with(ctx, t, err, func(t *team) error {
		p, err := c.phase(ctx, t, step{request: "POST persistentvolumeclaims", do: func(ctx context.Context, i int) error {
			_, err := c.createClaim(ctx, volumeName(i), "")
			return err
		}}, c.awaitVolumes)
		if err == nil {
			c.print("provision", p)
		}
		return err
	})
}

// churn measures the programs that attach: while volumes are attached and nothing changes, and while pods come and go.
func churn(ctx context.Context, c *cluster) error {
	if err := c.createVolumes(ctx); err != nil {
		return err
	}
	t, err := c.start(c.subject.attach, c.subject.attacher)
	return c.with(ctx, t, err, func(t *team) error {
		half := c.volumes / 2 // the pods of the others come and go
		err := each(half, func(i int) error { return c.createPod(ctx, i) })
		if err == nil {
			err = c.awaitAttached(ctx, half)
		}
		if err == nil {
			err = c.measureFor(ctx, t, "idle", func(ctx context.Context) error { return pause(ctx, c.idle) })
		}
		if err == nil {
			err = c.measureFor(ctx, t, fmt.Sprintf("%d pods come and go in a second", c.rate), c.comeAndGo)
		}
		return err
	})
}

// measureFor measures the programs during some work.
func (c *cluster) measureFor(ctx context.Context, t *team, name string, work func(context.Context) error) error {
	if err := c.awaitReady(ctx, t); err != nil {
		return err
	}
	before, err := t.usage()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := work(ctx); err != nil {
		return err
	}
	took := time.Since(start)
	after, err := t.usage()
	if err == nil {
		_, _ = fmt.Fprintf(c.out, "  %-15s %s: %s, %s\n", c.subject.name, name, share(after.CPU-before.CPU, took), mebibytes(after.Memory))
	}
	return err
}

// lifetime is the time for which a pod stays.
const lifetime = 5 * time.Second

// comeAndGo creates pods of the second half of the volumes at the rate, and removes each after its lifetime.
func (c *cluster) comeAndGo(ctx context.Context) error {
	first, count := c.volumes/2, c.volumes-c.volumes/2
	if count < c.rate*int(2*lifetime/time.Second) {
		return fmt.Errorf("-volumes must be at least %d for -rate %d", 4*c.rate*int(lifetime/time.Second), c.rate)
	}
	ticker := time.NewTicker(time.Second / time.Duration(c.rate))
	defer ticker.Stop()
	stay := c.rate * int(lifetime/time.Second)
	total := c.rate * int(c.churn/time.Second)
	errs := make(chan error, 2*total)
	for n := range total + stay {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if n < total {
			go func() { errs <- c.createPod(ctx, first+n%count) }()
		}
		if n >= stay {
			go func() { errs <- c.deletePod(ctx, first+(n-stay)%count) }()
		}
	}
	var all error
	for range cap(errs) {
		all = errors.Join(all, <-errs)
	}
	return all
}

// measureMemory measures all companions of the driver with volumes that are attached.
func measureMemory(ctx context.Context, c *cluster) error {
	if err := c.createVolumes(ctx); err != nil {
		return err
	}
	t, err := c.start("", c.subject.attacher, c.subject.provisioner, c.subject.resizer)
	return c.with(ctx, t, err, func(t *team) error {
		err := each(c.volumes, func(i int) error { return c.createAttachment(ctx, i) })
		if err == nil {
			err = c.awaitAttached(ctx, c.volumes)
		}
		if err != nil {
			return err
		}
		return c.measureFor(ctx, t, fmt.Sprintf("%d programs, idle", len(t.programs)), func(ctx context.Context) error { return pause(ctx, c.idle) })
	})
}
