import { useQuery } from "@tanstack/react-query";
import { drainFactory } from "../../api/actions";
import { factoriesQuery } from "../../api/queries";
import { plural } from "../../lib/format";
import { queries } from "../../live";
import { Confirm } from "../../ui/Confirm";
import { say } from "../../ui/toasts";

export function Drain({ id, onClose }: { id: string; onClose: () => void }) {
  const { data } = useQuery(factoriesQuery);
  const running = data?.items.find((factory) => factory.id === id)?.seats.length ?? 0;
  return (
    <Confirm
      title={`Drain ${id}?`}
      verb="Drain"
      onClose={onClose}
      act={async () => {
        await drainFactory(id, true);
        await queries.invalidateQueries({ queryKey: ["factories"] });
        say(`${id} is draining`, "It takes no new jobs until you resume it");
      }}
    >
      <p>
        {running === 0 ? "It runs no job now. " : `It finishes ${plural(running, "running job")}. `}It takes no new jobs
        until you resume it.
      </p>
    </Confirm>
  );
}
