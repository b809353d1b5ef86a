package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/apicalls"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const nodeName = "node-1"

// A cluster is a real API server.
type cluster struct {
	dir   string
	admin *kubernetes.Clientset
	api   api.Cluster // of the admin
	// measured is the connection of the measured client, and calls its calls.
	measured *kubernetes.Clientset
	calls    apicalls.Recorder
	out      io.Writer
}

// measurePods measures pods on a server, with files in dir.
func measurePods(ctx context.Context, server *kubeserver.Server, dir string, o options, out io.Writer) error {
	c := &cluster{dir: dir, out: out}
	connect := func(wrap transport.WrapperFunc) (*kubernetes.Clientset, error) {
		config := &rest.Config{Host: server.URL, BearerToken: server.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}}
		config.WrapTransport = wrap
		return kubernetes.NewForConfig(config)
	}
	var err, err2 error
	c.admin, err = connect(nil)
	c.measured, err2 = connect(c.calls.Wrap)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	c.api = kubeclient.New(c.admin)
	for {
		err := createAccount(ctx, c.api)
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			if err != nil {
				return err
			}
			break
		}
		time.Sleep(20 * time.Millisecond) // the namespace comes after the start of the API server
	}
	// The agent's files are on a tmpfs: a disk would be the larger part of the time.
	root := filepath.Join(dir, "root")
	if err := errors.Join(os.Mkdir(c.disks(), 0o755), os.Mkdir(root, 0o755), syscall.Mount("bench", root, "tmpfs", 0, "")); err != nil {
		return err
	}
	defer func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) }()
	a, err := startAgent(ctx, agentConfig{
		cluster: kubeclient.New(c.measured), node: nodeName, mounter: mount.New(mount.Config{}), root: root, disks: c.disks(),
	})
	if err != nil {
		return err
	}
	err = c.measureAgent(ctx, a, o)
	if err = errors.Join(err, a.stop()); err != nil {
		return err
	}
	return c.measureFloor(ctx, o.pods)
}

func (c *cluster) disks() string { return filepath.Join(c.dir, "disks") }

// measureAgent brings pods up one after another and all at once.
func (c *cluster) measureAgent(ctx context.Context, a *agent, o options) error {
	up := func(ctx context.Context, pod *v1.Pod) error { return a.manager.WaitForAttachAndMount(ctx, pod) }
	for _, way := range ways {
		pods, err := c.createPods(ctx, way.name, o.pods)
		if err != nil {
			return err
		}
		if _, err := c.takeWatched(ctx); err != nil { // of the start of the agent
			return err
		}
		times, cpu, err := c.bindAll(ctx, pods, way.abreast, up)
		if err != nil {
			return err
		}
		calls, err := c.takeWatched(ctx)
		if err != nil {
			return err
		}
		c.print(way.name, len(pods), times, cpu)
		if err := errors.Join(c.printCalls(calls, len(pods)), c.idle(ctx, o.idle)); err != nil {
			return err
		}
		if err := c.removePods(ctx, pods, a); err != nil {
			return err
		}
	}
	return nil
}

// ways are the ways to bind pods.
var ways = []struct {
	name    string
	abreast bool
}{{"one-by-one", false}, {"at-once", true}}

// createPods creates pods that have no node yet, with their objects.
func (c *cluster) createPods(ctx context.Context, prefix string, n int) (pods []*v1.Pod, err error) {
	pods = make([]*v1.Pod, n)
	err = each(n, 8, func(i int) (err error) {
		name := fmt.Sprintf("%s-%d", prefix, i)
		path := filepath.Join(c.disks(), name)
		err = errors.Join(os.MkdirAll(path, 0o755), createContent(ctx, c.api, name), createClaim(ctx, c.api, name, nodeName, path))
		if err == nil {
			pods[i], err = c.api.Pods(namespace).Create(ctx, newPod(name), metav1.CreateOptions{})
		}
		return err
	})
	return pods, err
}

// each calls f with the numbers below n, in up to workers goroutines.
func each(n, workers int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	slots := make(chan struct{}, workers)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// bindAll binds pods to the node, and returns the time from the call of each binding until up
// returns, and the processor time of this process.
func (c *cluster) bindAll(ctx context.Context, pods []*v1.Pod, abreast bool, up func(context.Context, *v1.Pod) error) ([]time.Duration, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	workers := 1
	if abreast {
		workers = len(pods)
	}
	times := make([]time.Duration, len(pods))
	before := cpuTime()
	err := each(len(pods), workers, func(i int) error {
		binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pods[i].Name}, Target: v1.ObjectReference{Kind: "Node", Name: nodeName}}
		start := time.Now()
		err := c.admin.CoreV1().Pods(namespace).Bind(ctx, binding, metav1.CreateOptions{})
		if err == nil {
			err = up(ctx, pods[i])
		}
		times[i] = time.Since(start)
		return err
	})
	return times, cpuTime() - before, err
}

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// takeWatched returns the calls since the last Take, once each list has its watch: the volumes of a pod are up after the
// lists.
func (c *cluster) takeWatched(ctx context.Context) (calls []apicalls.Call, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		calls = append(calls, c.calls.Take()...)
		lists := unwatched(calls)
		if len(lists) == 0 {
			return calls, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no watch after %s %s/%s: %w", lists[0].Right(), lists[0].Namespace, lists[0].Name, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// unwatched returns the lists without a watch of the same objects.
func unwatched(calls []apicalls.Call) (lists []apicalls.Call) {
	isWatched := map[apicalls.Call]bool{}
	for _, call := range calls {
		call.Code = 0
		isWatched[call] = true
	}
	for _, call := range calls {
		watch := call
		watch.Verb, watch.Code = "watch", 0
		if call.Verb == "list" && !isWatched[watch] {
			lists = append(lists, call)
		}
	}
	return lists
}

// removePods deletes pods and waits until their volumes are down.
func (c *cluster) removePods(ctx context.Context, pods []*v1.Pod, a *agent) error {
	for _, pod := range pods {
		if err := c.api.Pods(namespace).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0)); err != nil {
			return err
		}
	}
	for _, pod := range pods {
		if a != nil {
			if err := a.manager.WaitForUnmount(ctx, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cluster) print(what string, pods int, times []time.Duration, cpu time.Duration) {
	slices.Sort(times)
	at := func(percent int) time.Duration { return percentile(times, percent).Round(10 * time.Microsecond) }
	_, _ = fmt.Fprintf(c.out, "%s, %d pods with %d volumes: p50 %v, p99 %v, CPU %v for each pod\n",
		what, pods, volumesOfPod, at(50), at(99), (cpu / time.Duration(pods)).Round(10*time.Microsecond))
}

// printCalls prints the calls for each pod. A call that repeats an earlier one is an error: nothing
// has changed between the two.
func (c *cluster) printCalls(calls []apicalls.Call, pods int) error {
	counts := map[string]int{}
	for _, call := range calls {
		counts[call.Right()]++
	}
	_, _ = fmt.Fprintf(c.out, "  API calls for each pod: %.2f\n", float64(len(calls))/float64(pods))
	for _, right := range sortedKeys(counts) {
		_, _ = fmt.Fprintf(c.out, "    %-36s %.2f\n", right, float64(counts[right])/float64(pods))
	}
	return checkRepetitions(calls, pods)
}

// checkRepetitions returns an error for calls that repeat earlier ones. Tokens are of one service
// account: each pod has one.
func checkRepetitions(calls []apicalls.Call, pods int) error {
	counts := map[apicalls.Call]int{}
	for _, call := range calls {
		call.Code = 0
		counts[call]++
		most := 1
		if call.Right() == "create serviceaccounts/token" {
			most = pods
		}
		if counts[call] > most {
			return fmt.Errorf("the agent called %s %s/%s %d times for %d pods", call.Right(), call.Namespace, call.Name, counts[call], pods)
		}
	}
	return nil
}

func sortedKeys(counts map[string]int) (keys []string) {
	for key := range counts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// idle prints the calls in a time without changes: watches, which the API server ends from time to
// time. Other calls are an error.
func (c *cluster) idle(ctx context.Context, d time.Duration) error {
	c.calls.Take()
	timer := time.NewTimer(d)
	defer timer.Stop()
	before := cpuTime()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	calls := c.calls.Take()
	for _, call := range calls {
		if call.Verb != "watch" {
			return fmt.Errorf("the idle agent called %s %s", call.Right(), call.Name)
		}
	}
	_, _ = fmt.Fprintf(c.out, "  idle for %v: 0 API calls, and %d watches; CPU %v\n", d, len(calls), (cpuTime() - before).Round(10*time.Microsecond))
	return nil
}
