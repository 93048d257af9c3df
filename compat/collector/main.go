// An OpenTelemetry Collector with two parts: the receiver of OTLP that every distribution has, and
// an exporter that writes what came to standard output, a line of OTLP's JSON for each batch. The
// distributions cannot be had by `go install`, and have a hundred parts more.
//
//	collector '--config=yaml:receivers: {otlp: …'
package main

import (
	"context"
	"log"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

// lines writes each batch to standard output, as a line of OTLP's JSON.
type lines struct {
	component.StartFunc
	component.ShutdownFunc
	mutex sync.Mutex
}

func (l *lines) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (l *lines) ConsumeTraces(_ context.Context, traces ptrace.Traces) error {
	line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
	if err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}

func newLines(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
	return &lines{}, nil
}

func components() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	stdout := exporter.NewFactory(component.MustNewType("stdout"),
		func() component.Config { return &struct{}{} },
		exporter.WithTraces(newLines, component.StabilityLevelStable))
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](stdout)
	if err != nil {
		return otelcol.Factories{}, err
	}
	telemetry := otelconftelemetry.NewFactory()
	return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: telemetry}, nil
}

func main() {
	resolver := confmap.ResolverSettings{
		DefaultScheme:     "yaml",
		ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
	}
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo:              component.BuildInfo{Command: "collector", Version: "0.162.0"},
		Factories:              components,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: resolver},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
