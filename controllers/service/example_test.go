package service_test

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/controllers/service"
	"k8s.io/client-go/kubernetes/fake"
)

// A replica works while it holds a Lease, and serves metrics and health meanwhile.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	clientset := fake.NewClientset() // in a program: service.Connect(config)
	leadership, err := service.NewLeadership(clientset.CoordinationV1(), "kube-system", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	collector, err := metrics.NewCollector(metrics.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := service.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	work := func(ctx context.Context) error {
		fmt.Println("the work begins")
		cancel() // in a program: a signal
		<-ctx.Done()
		fmt.Println("and ends")
		return nil
	}
	fmt.Println(service.Service{Work: work, Leadership: leadership, Collector: collector}.Run(ctx, listener))
	// Output:
	// the work begins
	// and ends
	// <nil>
}
