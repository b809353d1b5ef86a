package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// An upCall stages or publishes a volume. The file of the target is written before the call, and so
// names the volume and the arguments after any interruption:
//
//   - no file: the driver has not been called.
//   - Sent: the outcome is unknown, and the same call is repeated.
//   - Failed: the driver has refused the call. The next call may have other arguments.
//   - Done: the volume is up. The same call is repeated, as to bring content up to date.
//   - Reverting: the volume is being taken down. That call is repeated before this one.
//   - Skipped: as Sent, but no pod may have a staged volume before the call is repeated.
type upCall[R upRequest] struct {
	plugin  *Plugin
	target  target
	data    voldata.Data // without a call
	request R
	// dir is the directory that the driver finds: the staging path, or the parent of the target.
	dir string
	// keep leaves file and directories after a failure: the volume may be in use.
	keep bool
	// ownPath: the path is named for the volume, so that a file there that names another one is broken.
	ownPath bool
	// repeats: the plugin has made the call before, since the start of the system.
	repeats bool
	send    func(ctx context.Context, request R) error
	revert  func(ctx context.Context) error
	// finish, if it is not nil, completes a volume that the driver has brought up, once. A driver that has
	// been asked to apply the group has completed it. resume is finish for a volume that a kubelet has
	// brought up, and may have completed.
	finish, resume func(ctx context.Context) error
	// staging is the staging path of a published volume: the driver may have staged at the time of the
	// recorded call only, or only since.
	staging string
	// isUp reports whether a volume without a recorded call is up. Nil: it is not. toKubelet gives a request
	// the arguments of a kubelet, which has brought up such a volume.
	isUp      func(ctx context.Context, existed bool) (bool, error)
	toKubelet func(request R)
	// reserve keeps pods from the staged volume until release is called, unless one has it. Nil: the call
	// publishes.
	reserve func(ctx context.Context) (release func(), ok bool)
	made    []madeDir
}

// A madeDir is a directory with the topmost directory that was created for it.
type madeDir struct{ top, dir string }

// run makes the call. The caller holds the lock of the target.
//
// A driver may refuse to stage a volume again that it has staged, wrongly or with other arguments. A volume
// without a pod is unstaged then, and staged anew, unless another program has staged it.
func (u *upCall[R]) run(ctx context.Context) error {
	err := u.runOnce(ctx)
	if u.reserve == nil || !u.repeats || !hasCode(err, codes.AlreadyExists) {
		return err
	}
	release, ok := u.reserve(ctx)
	if !ok {
		return err
	}
	defer release()
	data, unread := u.plugin.readData(u.target)
	if unread != nil || data.Call == nil {
		return err
	}
	if u.plugin.files.writeState(u.target.file, data, data.WithState(voldata.Reverting)) != nil {
		return err
	}
	return u.runOnce(ctx)
}

func (u *upCall[R]) runOnce(ctx context.Context) error {
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	before, existed, err := u.readBefore()
	if err != nil {
		return err
	}
	isUp, err := u.isUpWithoutCall(ctx, before, existed)
	if err != nil {
		return err
	}
	call := u.plugin.callOfThisBoot(before)
	if call != nil && call.State == voldata.Reverting {
		if err := u.revert(ctx); err != nil {
			return fmt.Errorf("repeat the interrupted tear-down: %w", err)
		}
		call = nil
	}
	u.repeats = call != nil
	isLost := before.Repaired || existed && before.DriverName == ""
	takenOver := u.toKubelet != nil && (isUp && !isLost || call != nil && call.TakenOver)
	u.data.Repaired = isLost
	if takenOver {
		u.request = proto.Clone(u.request).(R)
		u.toKubelet(u.request)
	}
	u.keep = u.keep || existed || isUp
	request, data, err := u.nextCall(call)
	data.Call.TakenOver = takenOver
	if err != nil {
		return err
	}
	if err := u.prepare(before, existed, data); err != nil {
		return u.fail(util.Transient(err), data)
	}
	err = u.plugin.exclusively(ctx, u.data.DriverName, u.data.VolumeHandle, func(ctx context.Context) error { return u.send(ctx, request) })
	if err != nil {
		return u.fail(upError(err), data)
	}
	if !isSameUse(request, u.request) {
		return fmt.Errorf("%s: %w", u.target.path, volume.ErrAlreadyMounted)
	}
	switch {
	case groupIn(request) != "":
		return u.complete(ctx, data, nil)
	case isUp || takenOver:
		return u.complete(ctx, data, u.resume)
	}
	return u.complete(ctx, data, u.finish)
}

// isUpWithoutCall reports whether a volume is up for which no call is recorded: a kubelet has brought it
// up, or its file was damaged.
func (u *upCall[R]) isUpWithoutCall(ctx context.Context, before voldata.Data, existed bool) (bool, error) {
	if u.isUp == nil || before.Call != nil {
		return false, nil
	}
	up, err := u.isUp(ctx, existed)
	if err != nil {
		return false, util.Transient(err)
	}
	return up, nil
}

// readBefore reads the file of the target. A broken file counts as one without a call, and is
// repaired, since the volume is known.
func (u *upCall[R]) readBefore() (before voldata.Data, existed bool, err error) {
	before, err = u.plugin.readData(u.target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return voldata.Data{}, false, nil
	case errors.Is(err, errBrokenData):
		return voldata.Data{}, true, nil
	case err != nil:
		return voldata.Data{}, true, util.Transient(err)
	case !before.SameVolume(u.data) && u.ownPath:
		return voldata.Data{}, true, nil
	case !before.SameVolume(u.data):
		return voldata.Data{}, true, fmt.Errorf("%s: %w: it has volume %s of driver %s", u.target.path, volume.ErrAlreadyMounted, input.Quote(before.VolumeHandle), input.Quote(before.DriverName))
	}
	return before, true, nil
}

// callOfThisBoot returns the recorded call if its effects may exist: no mount outlives the running
// system.
func (p *Plugin) callOfThisBoot(data voldata.Data) *voldata.Call {
	if data.Call == nil || data.Call.Boot != p.boot {
		return nil
	}
	return data.Call
}

// nextCall returns the request to send, and the data to write before. An earlier call is repeated with
// its arguments, unless the driver has refused it.
func (u *upCall[R]) nextCall(earlier *voldata.Call) (request R, data voldata.Data, err error) {
	request, data = u.request, u.data
	state := voldata.Sent
	if earlier != nil && earlier.State != voldata.Failed {
		if recorded, ok := decode(earlier.Request, u.request, u.staging); ok {
			request = withSecretsOf(recorded, u.request)
			if earlier.State == voldata.Done {
				state = voldata.Done
			}
		}
	}
	text, err := encode(request)
	data.Call = &voldata.Call{Boot: u.plugin.boot, State: state, Request: text}
	return request, data, err
}

// prepare creates the directories and writes the file. The file is durable then: one that names the volume stays,
// with its new state, and its name is synced unless it is durable.
func (u *upCall[R]) prepare(before voldata.Data, existed bool, data voldata.Data) error {
	made := ""
	if dir := path.Dir(u.target.file); !strings.HasPrefix(u.dir+"/", dir+"/") {
		var err error
		if made, err = u.mkdir(u.plugin.host.Root(), dir); err != nil {
			return err
		}
	}
	above, err := u.mkdir(u.plugin.rootOf(u.dir), u.dir)
	if err != nil {
		return err
	}
	same := before
	same.Call = data.Call
	if !existed || same != data || before.Call == nil { // a kubelet syncs no file
		return u.plugin.files.writeDurably(u.target.file, data, cmp.Or(made, above))
	}
	if err := u.plugin.files.writeState(u.target.file, before, data); err != nil || u.plugin.isDurable(before.Call) {
		return err
	}
	return u.plugin.files.SyncName(u.target.file)
}

// isDurable reports whether the name of a file with a recorded call is durable for certain: it has outlived a
// start of the system, or the call has been answered. Otherwise the process may have been killed between the
// write and its last sync, or the volume taken down in that state.
func (p *Plugin) isDurable(call *voldata.Call) bool {
	return p.callOfThisBoot(voldata.Data{Call: call}) == nil || call.State == voldata.Done || call.State == voldata.Failed
}

// mkdir creates a directory that a failure removes.
func (u *upCall[R]) mkdir(root, dir string) (made string, err error) {
	made, err = mkdir(root, dir)
	u.made = append(u.made, madeDir{made, dir})
	return made, err
}

// rootOf returns the host's root, or the target directory, that a path is below.
func (p *Plugin) rootOf(at string) string {
	for _, dir := range p.host.TargetDirs() {
		if strings.HasPrefix(at, dir+"/") {
			return dir
		}
	}
	return p.host.Root()
}

// fail returns the error of a failed call after it has reverted the changes of this call, or has
// recorded that the driver has refused the call.
func (u *upCall[R]) fail(err error, data voldata.Data) error {
	kind := volume.KindOf(err)
	switch {
	case kind == volume.Uncertain:
		return err
	case u.keep:
		if kind == volume.Final && data.Call.State == voldata.Sent {
			_ = u.plugin.files.writeState(u.target.file, data, data.WithState(voldata.Failed)) // otherwise the same call is repeated
		}
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	t := u.target
	t.own = nil // directories from before the call stay
	clean := u.plugin.removeTarget(ctx, t)
	for _, made := range slices.Backward(u.made) {
		clean = errors.Join(clean, revertDirs(made.top, made.dir))
	}
	if clean != nil {
		return volume.AsUncertain(fmt.Errorf("%w (cleaning up: %w)", err, clean))
	}
	return err
}

// cleanUpTime limits the time in which a failed call reverts its changes.
const cleanUpTime = time.Second

// complete calls a function that completes a volume, unless the file shows that the volume is complete,
// and records that it is. Nil: the driver has completed it.
func (u *upCall[R]) complete(ctx context.Context, data voldata.Data, finish func(ctx context.Context) error) error {
	if u.finish == nil || data.Call.State == voldata.Done {
		return nil
	}
	if finish != nil {
		if err := finish(ctx); err != nil {
			return err
		}
	}
	_ = u.plugin.files.writeState(u.target.file, data, data.WithState(voldata.Done)) // otherwise finish is repeated after a restart
	return nil
}
